package lockcmd

import (
	"strconv"
	"testing"
	"time"

	"leash/internal/faultproxy"
)

// TestR7AcquireBesideAnUnsettledMove: while nobody knows whether a hold has moved here, its owner's next request about it waits. It would
// find a hold of this connection that nobody here knows of, and take another one in its place.
func TestR7AcquireBesideAnUnsettledMove(t *testing.T) {
	s, straight, p := faulty(t, Config{UpstreamTimeout: 300 * time.Millisecond})
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		for _, from := range []*Service{s, straight} {
			for _, command := range []string{"LOCK.ACQUIRE", "LOCK.MACQUIRE", "LOCK.ATTACH"} {
				a, b, key := connect(t, from), connect(t, s), newKey()
				token := a.twice(key)
				move, left := []string{command, key, "OWNER", "x", "ID", "2"}, "1"
				switch command {
				case "LOCK.MACQUIRE":
					move = append([]string{command, "1"}, move[1:]...)
				case "LOCK.ATTACH":
					move, left = []string{command, key, "OWNER", "x", "TOKEN", strconv.FormatInt(token, 10)}, "2"
				}
				fault := arm(running(moveScript, key), faultproxy.Always())
				wantPrefix(t, b.do(move...), "-LOCKTIMEOUT ")
				want(t, b.do("LOCK.ACQUIRE", key, "OWNER", "x", "ID", "3"), "-"+msgRefused)
				want(t, b.do(move...), "-"+msgRefused)
				fault.Disarm()
				if again := b.token(key, "OWNER", "x", "ID", "3"); again != token {
					t.Errorf("%s: got token %d, want %d", command, again, token)
				}
				want(t, b.do("LOCK.RELEASE", key), ":0")
				want(t, count(straight.rdb, key, "x"), left)
				want(t, b.do("LOCK.RELEASE", key, "ALL"), ":1")
				eventually(t, 3*time.Second, "all is forgotten", func() bool { return a.carrier.Holds()+b.carrier.Holds() == 0 })
				wantNothing(t, straight.rdb, key, a, b)
			}
		}
	}
}
