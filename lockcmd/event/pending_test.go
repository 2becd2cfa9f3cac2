package event

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestPendingForgetsOldEvents: An event that waits for a grant for too long is forgotten with the
// next one.
func TestPendingForgetsOldEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p Pending
		p.Keep(Event{Kind: Moved, Token: 1, Carrier: "c"})
		time.Sleep(pendingTTL)
		p.Keep(Event{Kind: Watched, Token: 2, Carrier: "c"})
		p.Keep(Event{Kind: Broken, Token: 2, Carrier: "c"})
		if n := p.Holds(); n != 2 {
			t.Errorf("%d holds, want 2", n)
		}
		time.Sleep(time.Millisecond)
		p.Keep(Event{Kind: Released, Token: 3, Carrier: "c"})
		if n := p.Holds(); n != 2 {
			t.Errorf("%d holds after the time of the first, want 2", n)
		}
		if got, want := p.Take(2, "c"), []string{Watched, Broken}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestPendingIsBounded: It keeps a bounded number of holds, and of events for each.
func TestPendingIsBounded(t *testing.T) {
	t.Parallel()
	var p Pending
	for i := range maxPending + 100 {
		p.Keep(Event{Kind: Moved, Token: 1, Carrier: "leash:" + strconv.Itoa(i)})
	}
	for range 100 {
		p.Keep(Event{Kind: Moved, Token: 1, Carrier: "leash:1.1"})
	}
	if n := p.Holds(); n > maxPending {
		t.Errorf("%d holds, want at most %d", n, maxPending)
	}
	if kinds := p.Take(1, "leash:1.1"); len(kinds) != maxKinds {
		t.Errorf("%d events of one hold, want %d", len(kinds), maxKinds)
	}
	if kinds := p.Take(1, "leash:1.1"); kinds != nil {
		t.Errorf("taken twice: %v", kinds)
	}
}
