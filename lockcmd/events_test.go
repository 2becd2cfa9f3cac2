package lockcmd

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/lockcmd/refusal"
	"leash/proxy/slots"
)

// TestR5ReleaseThroughAnotherLeashLeavesNoDeadlock: A hold was released through another Leash, and
// its own Leash does not know yet. An acquire on its connection must not be refused as a deadlock.
func TestR5ReleaseThroughAnotherLeashLeavesNoDeadlock(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := New(Config{WatchdogTimeout: 10 * time.Minute}, rdb, silentSubscriber{}, slog.New(slog.DiscardHandler))
		t.Cleanup(runService(s))
		a, key := connect(t, s), newKey()
		token := strconv.FormatInt(a.token(key), 10)
		want(t, a.do("LOCK.ACQUIRE", key, "BLOCK", "1000"), "-"+refusal.Deadlock)
		want(t, connect(t, leash(t, rdb, Config{})).do("LOCK.RELEASE", key, "TOKEN", token), ":1")
		a.token(key, "BLOCK", "1000")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if len(a.losses) != 0 {
			t.Errorf("reported as lost: %s", <-a.losses)
		}
	})
}

// TestR7IDsOfTwoOwnersAreDifferent: Two owners may use the same request ID.
func TestR7IDsOfTwoOwnersAreDifferent(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, s)
		a.token(key, "OWNER", "a", "ID", "1")
		want(t, a.do("LOCK.RELEASE", key, "OWNER", "a", "ID", "2"), ":1")
		b.token(key, "OWNER", "b", "ID", "1")
		want(t, b.do("LOCK.RELEASE", key, "OWNER", "c", "ID", "2"), "-"+refusal.NotHeld)
		want(t, b.do("LOCK.RELEASE", key, "OWNER", "b", "ID", "2"), ":1")
		if exists(t, rdb, key) {
			t.Error("reported as released, and still held")
		}
		want(t, a.do("LOCK.RELEASE", key, "OWNER", "a", "ID", "2"), ":1") // the same release again
	})
}

// TestR14WriterHandsOverToAReaderInASlotThatMigrates: The keys of the lock are on two nodes, so the
// hand-over to a reader fails. The release of the writer is still complete.
func TestR14WriterHandsOverToAReaderInASlotThatMigrates(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := leash(t, dialCluster(t, cluster.Addrs()...), Config{})
	key := newKey()
	a, b := connect(t, s), connect(t, s)
	a.token(key, "WRITE")
	waiting := b.await(s, 1, key, "READ", "BLOCK", "0")
	slot := int(slots.Of([]byte(key)))
	move, err := cluster.BeginMove(slot, cluster.MasterOf((slot+slots.Count/2)%slots.Count))
	if err != nil {
		t.Fatal(err)
	}
	want(t, a.do("LOCK.RELEASE", key), ":1")
	if len(a.losses) != 0 {
		t.Errorf("reported as lost: %s", <-a.losses)
	}
	eventually(t, 5*time.Second, "the lock is free", func() bool {
		err := cluster.MasterOf(slot).Client().Exists(t.Context(), key).Err()
		return redis.HasErrorPrefix(err, "ASK") // ASK would lead to the slot's new master
	})
	if err := move.Abort(); err != nil {
		t.Fatal(err)
	}
	if token := tokenOf(t, receive(t, waiting, 10*time.Second)); token == 0 || b.carrier.Holds() != 1 {
		t.Error("the reader did not get in")
	}
}
