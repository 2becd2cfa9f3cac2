package lockcmd

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
)

// stepped is a Redis whose clock can be stepped.
func stepped(t *testing.T) (rdb *redis.Client, step func(time.Duration)) {
	t.Helper()
	server, err := redistest.Launch(redistest.Options{Clock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return dialServer(t, server.Addr), func(d time.Duration) {
		t.Helper()
		if err := server.Clock.Step(d); err != nil {
			t.Fatal(err)
		}
	}
}

// TestR22ADeadWaiterDoesNotOutliveAStepBack: when Redis's clock is set back, who died in the queue before is taken out all the same, and as soon
// as if it had died then.
func TestR22ADeadWaiterDoesNotOutliveAStepBack(t *testing.T) {
	rdb, step := stepped(t)
	s, key := leash(t, rdb, Config{}), newKey()
	holder, a := connect(t, s), connect(t, s)
	holder.token(key)
	for range 3 { // of whom nobody hears again
		connect(t, s).carrier.newTry(wish{mode: fair, key: key, wait: true, ttl: 30 * time.Second}, nil).send(s.deadline())
	}
	reply := a.stand(rdb, 4, key, "BLOCK", "0")
	want(t, holder.do("LOCK.RELEASE", key), ":1")
	step(-time.Hour)
	eventually(t, 5*time.Second, "they count as dead soon", func() bool {
		most := rdb.ZRangeWithScores(t.Context(), queueKeys(key)[2], -1, -1).Val()
		return int64(most[0].Score) <= rdb.Time(t.Context()).Val().Add(2*waitPatience).UnixMilli()
	})
	step(2 * waitPatience)
	tokenOf(t, receive(t, reply, 5*time.Second))
	want(t, a.do("LOCK.RELEASE", key), ":1")
	wantNothingLeft(t, rdb, key)
}

// TestR22LiveWaitersKeepTheirOrder over steps of Redis's clock.
func TestR22LiveWaitersKeepTheirOrder(t *testing.T) {
	for name, d := range map[string]time.Duration{"an hour forward": time.Hour, "an hour back": -time.Hour, "by less than they count for": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			rdb, step := stepped(t)
			s, key := leash(t, rdb, Config{}), newKey()
			holder := connect(t, s)
			holder.token(key)
			const n = 5
			conns, replies := make([]*conn, n), make([]<-chan string, n)
			for i := range n {
				conns[i] = connect(t, s)
				replies[i] = conns[i].stand(rdb, i+1, key, "BLOCK", "0")
			}
			step(d)
			for i := range n {
				if i == 0 && d < time.Minute {
					want(t, holder.do("LOCK.RELEASE", key), ":1")
				}
				tokenOf(t, receive(t, replies[i], 5*time.Second))
				want(t, conns[i].do("LOCK.RELEASE", key), ":1")
			}
			wantNothingLeft(t, rdb, key)
		})
	}
}
