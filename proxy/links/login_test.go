package links

import (
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/dial"
	"leash/proxy/resp"
)

// TestRefusedLoginShiftsNoReply checks that replies stay with their requests when Redis leaves out
// the reply to a refused AUTH, and when it does not.
func TestRefusedLoginShiftsNoReply(t *testing.T) {
	for _, refusal := range []string{redistest.NoReply, "-WRONGPASS no\r\n"} {
		var right atomic.Value
		right.Store("first")
		f := redistest.StartFake(t, func(args []string) string {
			switch {
			case args[0] == "CLIENT":
				return ":7\r\n"
			case args[0] != "AUTH":
				return redistest.Echo(args)
			case len(args) == 1:
				return dial.AuthEnd + "\r\n"
			case args[2] != right.Load():
				return refusal
			}
			return resp.OK
		})
		var password atomic.Value
		password.Store("first")
		n := startWith(t, f.Addr, dial.Config{User: "leash", Password: "first", ReadPassword: func(string) (string, error) {
			return password.Load().(string), nil
		}}, Hooks{})
		lane := n.nodes.Dialer.ServiceLane()
		shared, pinned := n.Link(lane), n.Pin(lane, nil)
		results := make(chan result, 100)
		ask := func() {
			t.Helper()
			for _, l := range []*Link{shared, pinned} {
				pinned.Steady(l == pinned)
				submit(l, results, "ECHO", "before")
				n.nodes.LogInAgain()
				for _, word := range []string{"a", "b"} {
					submit(l, results, "ECHO", word)
				}
				for _, word := range []string{"before", "a", "b"} {
					if got := next(t, results); got.name != "ECHO "+word || got.reply != string(resp.AppendBulk(nil, word)) {
						t.Errorf("refused by %q: got %+v, want %s", refusal, got, word)
					}
				}
			}
		}
		ask()
		password.Store("second")
		n.nodes.Dialer.ReadPassword("")
		ask()
		select {
		case <-n.nodes.Dialer.RefusedPasswords():
		case <-time.After(time.Minute):
			t.Errorf("refused by %q: nobody was told", refusal)
		}
		password.Store("third")
		right.Store("third")
		n.nodes.Dialer.ReadPassword("")
		ask()
		for _, l := range []*Link{shared, pinned} {
			l.mu.Lock()
			if l.login.InFlight() || n.nodes.Dialer.LoginAgain(lane, &l.login) != nil {
				t.Errorf("refused by %q: a link has not logged in with the newest password", refusal)
			}
			l.mu.Unlock()
		}
	}
}
