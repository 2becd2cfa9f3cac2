package load

import (
	"strings"
	"testing"
	"time"
)

func testRace(addrs ...string) (g *racing, a, b *contender) {
	now := time.Now()
	g = &racing{Race: Race{Addrs: addrs}, phase: counting}
	a = &contender{race: g, addr: addrs[0], client: &client{id: 1}, asked: now.Add(-time.Second)}
	b = &contender{race: g, addr: addrs[len(addrs)-1], client: &client{id: 2}, asked: now.Add(-time.Second)}
	return g, a, b
}

// TestRaceIsChecked: two holders, or a token that does not rise, are errors.
func TestRaceIsChecked(t *testing.T) {
	g, a, b := testRace("x")
	if err := g.granted(a, 5, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := g.granted(b, 6, time.Now()); err == nil || err.Error() != "granted to 2 while 1 holds the lock" {
		t.Errorf("got %v", err)
	}
	a.sendRelease(nil)
	if err := g.granted(b, 5, time.Now()); err == nil || !strings.Contains(err.Error(), "token 5 after 5") {
		t.Errorf("got %v", err)
	}
	if err := g.granted(b, 6, time.Now()); err != nil {
		t.Error(err)
	}
}

// TestRaceCounts: only a grant to a contender that waited has a latency. With two Leashes, it must
// cross from one to the other.
func TestRaceCounts(t *testing.T) {
	g, a, b := testRace("x", "y")
	pass := func(c *contender) {
		t.Helper()
		if err := g.granted(c, g.token+1, time.Now()); err != nil {
			t.Fatal(err)
		}
		c.sendRelease(nil)
	}
	pass(a) // nobody held it before
	pass(b)
	pass(b) // on the same Leash
	a.asked = g.released
	pass(a) // had not waited
	if g.sample.Commands != 4 || g.sample.latency.Total != 1 {
		t.Errorf("got %d grants, %d latencies, want 4 and 1", g.sample.Commands, g.sample.latency.Total)
	}
	g.phase = draining
	pass(b)
	if g.sample.Commands != 4 {
		t.Error("a grant counts after the round")
	}
}

func TestContenderReadsReplies(t *testing.T) {
	g, a, _ := testRace("x")
	a.release = []byte("release")
	if request, complete, err := a.receive([]byte(":7\r\n"), nil); err != nil || complete || string(request) != "release" || g.holder != nil {
		t.Errorf("granted: got %q, %v, %v", request, complete, err)
	}
	if _, complete, err := a.receive([]byte(":1\r\n"), nil); err != nil || !complete {
		t.Errorf("released: got %v, %v", complete, err)
	}
	a.begin(nil)
	g.Hold = time.Hour
	if request, complete, err := a.receive([]byte(":8\r\n"), nil); err != nil || complete || len(request) > 0 || g.holder != a {
		t.Errorf("granted, to hold: got %q, %v, %v", request, complete, err)
	}
	if _, _, err := a.receive([]byte(":0\r\n"), nil); err == nil {
		t.Error("no error")
	}
}
