package transport

import (
	"testing"
	"time"
)

// TestRoundTripFollows: a short call counts at once, a long one slowly.
func TestRoundTripFollows(t *testing.T) {
	t.Parallel()
	var c Client
	c.roundTrip.note(time.Millisecond)
	c.roundTrip.note(time.Second)
	if got := c.RoundTrip(); got > 100*time.Millisecond || got <= time.Millisecond {
		t.Errorf("after one slow call: got %v", got)
	}
	for range 200 {
		c.roundTrip.note(100 * time.Millisecond)
	}
	if got := c.RoundTrip(); got < 99*time.Millisecond || got > 101*time.Millisecond {
		t.Errorf("after 200 calls of 100ms: got %v", got)
	}
	c.roundTrip.note(time.Millisecond)
	if got := c.RoundTrip(); got != time.Millisecond {
		t.Errorf("after a fast call: got %v", got)
	}
}
