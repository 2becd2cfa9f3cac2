package lockcmd

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestR22FairFirstComeFirstServed(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		services, key := []*Service{leash(t, rdb, Config{}), leash(t, rdb, Config{})}, newKey()
		holder := connect(t, services[0])
		holder.token(key, "FAIR")
		const n = 50
		conns, replies := make([]*conn, n), make([]<-chan string, n)
		for i := range n {
			conns[i] = connect(t, services[i/3%2])
			replies[i] = conns[i].start("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0")
			eventually(t, 5*time.Second, "it stands in the queue", func() bool {
				return rdb.LLen(context.Background(), queueKeys(key)[0]).Val() == int64(i+1)
			})
		}
		last := int64(0)
		for i := range n {
			want(t, holder.do("LOCK.RELEASE", key), ":1")
			token := tokenOf(t, receive(t, replies[i], 500*time.Millisecond))
			if token <= last {
				t.Fatalf("waiter %d got token %d after %d", i, token, last)
			}
			last, holder = token, conns[i]
		}
		want(t, holder.do("LOCK.RELEASE", key), ":1")
		for _, k := range append(queueKeys(key), key) {
			if exists(t, rdb, k) {
				t.Errorf("%s is left behind", k)
			}
		}
		t.Log(services[0].Stats(), services[1].Stats())
	})
}
