package lockcmd_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/proxy/slots"
)

// TestDirectPath: Scripts use the direct path as soon as it exists. Redirects and missing scripts
// do no harm.
func TestDirectPath(t *testing.T) {
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		var wired atomic.Int64
		s := locktest.Start(t, rdb, lockcmd.Config{}, func(s *lockcmd.Service) {
			up := s.Redis.Links
			s.Redis.Links = locktest.LinksWith{Links: up, OnScript: func(until time.Time, writeBy *time.Time, db int,
				slot slots.Slot, command, dst []byte) ([]byte, bool, error) {
				reply, sent, err := up.Script(until, writeBy, db, slot, command, dst)
				if sent && err == nil {
					wired.Add(1)
				}
				return reply, sent, err
			}}
		})
		a, key := locktest.Connect(t, s), locktest.NewKey()
		for i := 0; wired.Load() < 10; i++ {
			if i == 10_000 {
				t.Fatalf("%d scripts of %d went by the wire", wired.Load(), 2*i)
			}
			a.Token(key)
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		}
		locktest.FlushScripts(t, rdb)
		a.Token(key)
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	})
}
