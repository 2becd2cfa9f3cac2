package limits

import (
	"net"
	"testing"
	"time"
)

// TestClientMovesItsCounts checks that a client takes what it counts to its next user, that a user
// without room refuses it, and that nothing is left after it.
func TestClientMovesItsCounts(t *testing.T) {
	users := New(Limits{Clients: 1, Holds: 2, Waiters: 1})
	c, other := NewClient(users, nil), NewClient(users, nil)
	if got := c.Admit(""); got != "" || other.Admit("b") != "" {
		t.Fatal(got)
	}
	c.Recount(Holds, 2)
	if got, want := c.Room(Holds, 1), "LIMIT user 'default' has reached --limit-user holds on this Leash"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	done, refusal := c.Take(Waiters)
	if _, again := c.Take(Waiters); refusal != "" || again == "" {
		t.Errorf("waiters: %q, %q", refusal, again)
	}
	if got, want := c.Admit("b"), "LIMIT user 'b' has reached --limit-user clients on this Leash"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if c.user.Name != "default" || c.user.used[Holds].Load() != 2 {
		t.Errorf("a refusal has changed something: %+v", c.user)
	}
	if got := c.Admit("c"); got != "" || c.Room(Holds, 1) == "" || users.here["default"] != nil {
		t.Errorf("the counts did not come along: %q, %+v", got, c.user)
	}
	done()
	c.Recount(Holds, 1)
	if got := c.Room(Holds, 1); got != "" {
		t.Error(got)
	}
	user := c.user
	c.Leave()
	other.Leave()
	if len(users.here) != 0 || user.used[Holds].Load() != 0 {
		t.Errorf("left: %v, %+v", users.here, user)
	}
}

// TestClientOfAddress checks the limit of an address. A unix socket has none.
func TestClientOfAddress(t *testing.T) {
	addresses := New(Limits{Clients: 1})
	one, two, local := NewClient(nil, addresses), NewClient(nil, addresses), NewClient(nil, addresses)
	addr := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}
	if !one.AdmitFrom(addr) || two.AdmitFrom(addr) || !local.AdmitFrom(&net.UnixAddr{}) {
		t.Error("not one client of the address")
	}
	one.Leave()
	if !two.AdmitFrom(addr) {
		t.Error("no room after the first has left")
	}
}

// TestClientPace checks that commands of a share run at once, and that a user without a limit is
// not asked.
func TestClientPace(t *testing.T) {
	c := NewClient(New(Limits{Commands: 1}), nil)
	c.Admit("a")
	waits, refusal := time.Duration(0), ""
	for i := 0; refusal == "" && i < 10; i++ {
		var wait time.Duration
		wait, refusal = c.Pace()
		waits += wait
	}
	if want := "LIMIT user 'a' has reached --limit-user commands on this Leash"; refusal != want || waits == 0 {
		t.Errorf("got %q after waits of %v", refusal, waits)
	}
	free := NewClient(New(Limits{Clients: 1}), nil)
	free.Admit("a")
	for range 1000 {
		if wait, refusal := free.Pace(); wait != 0 || refusal != "" {
			t.Fatalf("got %v, %q", wait, refusal)
		}
	}
}

// TestNilClient checks that a client without limits is never refused.
func TestNilClient(t *testing.T) {
	c := NewClient(nil, nil)
	done, taken := c.Take(Blocked)
	done()
	wait, paced := c.Pace()
	c.Recount(Holds, 1)
	if c != nil || !c.AdmitFrom(&net.TCPAddr{}) || c.Admit("a")+c.Room(Holds, 1)+taken+paced != "" || wait != 0 {
		t.Error("something was refused")
	}
	c.Leave()
}
