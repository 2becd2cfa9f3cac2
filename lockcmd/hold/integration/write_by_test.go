package hold_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/script"
	"leash/proxy/slots"
)

// TestNothingIsWrittenForAnEndedHold: The commands that change a latch or a semaphore are written
// only while the holds of their connection are safe. If that was not known in time, they are sent
// again. When the connection is at its end, they are not sent at all.
func TestNothingIsWrittenForAnEndedHold(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		var limits []*time.Time // of the calls of one command
		s := locktest.Start(t, rdb, lockcmd.Config{}, func(s *lockcmd.Service) {
			up := s.Redis.Links
			s.Redis.Links = locktest.LinksWith{Links: up, OnScript: func(until time.Time, writeBy *time.Time, db int,
				slot slots.Slot, command, dst []byte) ([]byte, bool, error) {
				for _, name := range []string{"set_counter", "count_down", "semaphore_resize", "give"} {
					if !strings.Contains(string(command), script.ByName(name).SHA) {
						continue
					}
					if limits = append(limits, writeBy); len(limits) == 1 {
						past := time.Now()
						return up.Script(until, &past, db, slot, command, dst)
					}
				}
				return up.Script(until, writeBy, db, slot, command, dst)
			}}
		})
		for _, c := range []struct{ command, reply string }{
			{"LATCH.SET K 3", ":1"},
			{"LATCH.DOWN K", ":2"},
			{"SEM.INIT K 3", ":1"},
			{"SEM.RESIZE K 5", ":5"},
			{"SEM.GIVE K 2", ":2"},
		} {
			a, key, lock := locktest.Connect(t, s), locktest.NewKey(), locktest.NewKey()
			command := strings.Fields(strings.ReplaceAll(c.command, "K", key))
			if command[0] == "LATCH.DOWN" {
				locktest.Want(t, a.Do("LATCH.SET", key, "3"), ":1")
			}
			a.Token(lock)
			safe := a.Carrier.SafeUntil()
			limits = nil
			locktest.Want(t, a.Do(command...), c.reply)
			if len(limits) == 0 || limits[0] == nil || !limits[0].Equal(*safe) {
				t.Errorf("%s: sent with the limits %v, want %v", c.command, limits, safe)
			}
			locktest.Want(t, a.Do("LOCK.RELEASE", lock), ":1")
			limits = nil
			a.Gone()
			if reply := a.Do(command...); !strings.HasPrefix(reply, "-LOCKTIMEOUT") || len(limits) > 0 {
				t.Errorf("%s on a connection that has ended: got %q after %d calls", c.command, reply, len(limits))
			}
		}
	})
}
