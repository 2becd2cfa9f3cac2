package acquire_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// TestR7AcquireBesideAPendingMove: A move of a hold to this connection has an unknown outcome. The
// owner's next request about the hold waits. Otherwise it could find a hold that this Leash does
// not know, and acquire a second one.
func TestR7AcquireBesideAPendingMove(t *testing.T) {
	t.Parallel() // mostly waiting
	tests := make(map[string]func(*testing.T))
	for _, away := range []bool{false, true} {
		for _, ran := range []bool{true, false} {
			for _, command := range []string{"LOCK.ACQUIRE", "LOCK.MACQUIRE", "LOCK.ATTACH"} {
				tests[fmt.Sprint(away, ran, command)] = func(t *testing.T) {
					s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
					from := s
					if away {
						from = straight
					}
					a, b, key := locktest.Connect(t, from), locktest.Connect(t, s), locktest.NewKey()
					token := a.Twice(key)
					move, left := []string{command, key, "OWNER", "x", "ID", "2"}, "1"
					switch command {
					case "LOCK.MACQUIRE":
						move = append([]string{command, "1"}, move[1:]...)
					case "LOCK.ATTACH":
						move, left = []string{command, key, "OWNER", "x", "TOKEN", strconv.FormatInt(token, 10)}, "2"
					}
					fault := locktest.Drop(p, ran)(locktest.Running(script.MoveScript, key), faultproxy.Always())
					locktest.WantPrefix(t, b.Do(move...), "-LOCKTIMEOUT ")
					locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "OWNER", "x", "ID", "3"), "-"+refusal.NotAccepted)
					locktest.Want(t, b.Do(move...), "-"+refusal.NotAccepted)
					fault.Disarm()
					locktest.Want(t, b.AskUntilAnswered("LOCK.ACQUIRE", key, "OWNER", "x", "ID", "3"),
						":"+strconv.FormatInt(token, 10))
					locktest.Want(t, b.Do("LOCK.RELEASE", key), ":0")
					locktest.Want(t, locktest.Count(locktest.RedisOf(straight), key, "x"), left)
					locktest.Want(t, b.Do("LOCK.RELEASE", key, "ALL"), ":1")
					locktest.Eventually(t, 3*time.Second, "all is forgotten", func() bool {
						return a.Carrier.Holds()+b.Carrier.Holds() == 0
					})
					locktest.WantNothing(t, locktest.RedisOf(straight), key, a, b)
				}
			}
		}
	}
	locktest.RunParallel(t, tests)
}
