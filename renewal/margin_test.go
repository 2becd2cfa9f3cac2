package renewal

import (
	"testing"
	"time"
)

// TestMarginIsThatOfTheLastMinute checks the margin before a renewal, after one, while the store is
// silent, and a while after the last hold has gone.
func TestMarginIsThatOfTheLastMinute(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		const ttl = 12 * time.Second
		if got := w.Margin(); got >= 0 {
			t.Errorf("before a renewal: %v", got)
		}
		h, _ := w.grant(1, ttl)
		time.Sleep(9 * time.Second)
		if got := w.Margin(); got < ttl/2 || got > ttl {
			t.Errorf("after a renewal: %v", got)
		}
		w.Remove(h)
		time.Sleep(3 * marginWindow)
		if got := w.Margin(); got >= 0 {
			t.Errorf("long after the last hold: %v", got)
		}
		w.lease(2, ttl)
		time.Sleep(9 * time.Second)
		if got := w.Margin(); got >= 0 {
			t.Errorf("with a lease: %v", got)
		}
	})
}

func TestMarginsTurn(t *testing.T) {
	const s = moment(time.Second)
	var m margins
	m.note(1*s, 5*time.Second)
	m.note(2*s, 7*time.Second)
	if m.present != 5*time.Second || m.old {
		t.Errorf("got %+v, want the smaller one", m)
	}
	m.note(31*s, 6*time.Second)
	if m.present != 6*time.Second || !m.old || m.last != 5*time.Second {
		t.Errorf("got %+v, want both windows", m)
	}
	m.turn(200 * s)
	if m.inPresent || m.old {
		t.Errorf("got %+v, want none", m)
	}
}
