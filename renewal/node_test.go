package renewal

import (
	"context"
	"testing"
	"time"
)

// slow is a Store that answers after a time.
type slow struct {
	*memory
	delay time.Duration
}

func (s slow) Renew(ctx context.Context, node string, batches []Batch) [][]Outcome {
	select {
	case <-time.After(s.delay):
		return s.memory.Renew(ctx, node, batches)
	case <-ctx.Done():
		out := make([][]Outcome, len(batches))
		for i, b := range batches {
			out[i] = make([]Outcome, len(b.Holds))
		}
		return out
	}
}

func TestR24ShortTTLsDoNotStarveLongOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.Watchdog.store = slow{w.store, 40 * time.Millisecond}
		long, o := w.grant(5, 2*time.Second)
		for range 800 { // 8 s
			w.lease(5, 200*time.Millisecond) // has 33 ms for a round
			w.grant(6, 100*time.Millisecond)
			rest(10 * time.Millisecond)
		}
		o.want(t, "")
		if left := w.store.left(long); left < time.Second {
			t.Errorf("got %v left in the store, want more than half", left)
		}
	})
}

func TestR24BackOffGrowsWhileTheStoreIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.set(always(notDone))
		h, _ := w.grant(0, ttl)
		w.Check(h)
		rest(3 * time.Second)
		if n := len(w.store.called()); n < 5 || n > 12 { // 10+20+40+…+1000 ms
			t.Errorf("got %d calls in 3 s, want about 9", n)
		}
		w.store.set(nil)
		rest(2 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.nodes) != 0 {
			t.Error("a node that answers is still remembered")
		}
	})
}
