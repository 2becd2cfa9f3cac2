package lockcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
	"leash/proxy/slots"
)

// TestNothingIsWrittenForAnEndedHold: The commands that change a latch or a semaphore are written
// only while the holds of their connection are safe. If that was not known in time, they are sent
// again. When the connection is at its end, they are not sent at all.
func TestNothingIsWrittenForAnEndedHold(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		var limits []*time.Time // of the calls of one command
		s := leash(t, rdb, Config{}, func(s *Service) {
			up := s.Redis.Links
			s.Redis.Links = linksWith{Links: up, script: func(until time.Time, writeBy *time.Time, db int,
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
			a, key, lock := connect(t, s), newKey(), newKey()
			command := strings.Fields(strings.ReplaceAll(c.command, "K", key))
			if command[0] == "LATCH.DOWN" {
				want(t, a.do("LATCH.SET", key, "3"), ":1")
			}
			a.token(lock)
			safe := a.carrier.SafeUntil()
			limits = nil
			want(t, a.do(command...), c.reply)
			if len(limits) == 0 || limits[0] == nil || !limits[0].Equal(*safe) {
				t.Errorf("%s: sent with the limits %v, want %v", c.command, limits, safe)
			}
			want(t, a.do("LOCK.RELEASE", lock), ":1")
			limits = nil
			a.gone()
			if reply := a.do(command...); !strings.HasPrefix(reply, "-LOCKTIMEOUT") || len(limits) > 0 {
				t.Errorf("%s on a connection that has ended: got %q after %d calls", c.command, reply, len(limits))
			}
		}
	})
}
