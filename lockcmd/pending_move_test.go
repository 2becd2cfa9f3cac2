package lockcmd

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// askUntilAnswered repeats a command with an ID until Redis answers in time.
func (c *conn) askUntilAnswered(args ...string) (reply string) {
	c.t.Helper()
	eventually(c.t, 5*time.Second, "Redis answers in time", func() bool {
		reply = c.do(args...)
		return !strings.HasPrefix(reply, "-LOCKTIMEOUT ")
	})
	return reply
}

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
					s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
					from := s
					if away {
						from = straight
					}
					a, b, key := connect(t, from), connect(t, s), newKey()
					token := a.twice(key)
					move, left := []string{command, key, "OWNER", "x", "ID", "2"}, "1"
					switch command {
					case "LOCK.MACQUIRE":
						move = append([]string{command, "1"}, move[1:]...)
					case "LOCK.ATTACH":
						move, left = []string{command, key, "OWNER", "x", "TOKEN", strconv.FormatInt(token, 10)}, "2"
					}
					fault := drop(p, ran)(running(script.MoveScript, key), faultproxy.Always())
					wantPrefix(t, b.do(move...), "-LOCKTIMEOUT ")
					want(t, b.do("LOCK.ACQUIRE", key, "OWNER", "x", "ID", "3"), "-"+refusal.Refused)
					want(t, b.do(move...), "-"+refusal.Refused)
					fault.Disarm()
					want(t, b.askUntilAnswered("LOCK.ACQUIRE", key, "OWNER", "x", "ID", "3"),
						":"+strconv.FormatInt(token, 10))
					want(t, b.do("LOCK.RELEASE", key), ":0")
					want(t, count(straight.Redis.Redis, key, "x"), left)
					want(t, b.do("LOCK.RELEASE", key, "ALL"), ":1")
					eventually(t, 3*time.Second, "all is forgotten", func() bool {
						return a.carrier.Holds()+b.carrier.Holds() == 0
					})
					wantNothing(t, straight.Redis.Redis, key, a, b)
				}
			}
		}
	}
	runParallel(t, tests)
}
