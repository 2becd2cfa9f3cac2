package renewal

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestR26RemoveDuringARenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, o := w.grant(1, ttl)
		w.store.set(always(hangsDone))
		rest(10 * time.Second) // a renewal is in progress
		if until := w.Remove(h); until.IsZero() {
			t.Error("Remove did not say how long the hold was safe")
		}
		rest(2 * ttl)
		o.want(t, "")
		if !w.Until(h).IsZero() {
			t.Error("a removed hold is kept")
		}
	})
}

func TestR31SuspendLosesAll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		_, short := w.grant(1, ttl)
		long, longOwner := w.grant(16000, 10*ttl)
		before := w.Until(long)
		w.slept.Store(int64(ttl/3 + time.Second))
		rest(time.Second)
		short.want(t, "lost: "+ReasonSuspended)
		longOwner.want(t, "")
		if after := w.Until(long); !after.Equal(before.Add(-ttl/3 - time.Second)) {
			t.Errorf("got until %v, want the time slept through taken off", after)
		}
	})
}

func TestR31RenewAll(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.nodes = 3
		var holds []*Hold
		for slot := range 300 {
			h, _ := w.grant(slot*50, ttl)
			holds = append(holds, h)
		}
		rest(7 * time.Second)
		w.RenewAll(t.Context())
		for _, h := range holds {
			if left := w.store.left(h); left != ttl {
				t.Fatalf("got %v left, want all of it", left)
			}
		}
		w.store.set(always(hangs))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		w.RenewAll(ctx)
		if took := time.Since(began); took > time.Second {
			t.Errorf("RenewAll took %v, want it bounded by its context", took)
		}
	})
}

func TestCheckIsImmediate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, o := w.grant(16000, ttl)
		w.store.end(h, Released)
		w.Check(h)
		synctest.Wait()
		o.want(t, fmt.Sprint("ended: ", Released))
	})
}

func TestAddAgainOnlyRaises(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, _ := w.grant(1, ttl)
		before := w.Until(h)
		w.Add(h, Plan{Slot: 1, TTL: 2 * ttl, Until: time.Now()})
		if got := w.Until(h); !got.Equal(before) {
			t.Errorf("got until %v, want %v", got, before)
		}
		rest(20 * time.Second)
		if left := w.store.left(h); left < ttl {
			t.Errorf("got %v left, want the new TTL", left)
		}
	})
}

func BenchmarkStep(b *testing.B) {
	m := &memory{expiry: make(map[*Hold]time.Time), how: make(map[*Hold]Outcome)}
	w := New(m)
	for n := range 100_000 {
		w.Add(&Hold{Keeper: &owner{}}, Plan{Slot: n % slotCount, TTL: time.Hour, Until: time.Now().Add(time.Hour)})
	}
	b.ReportAllocs()
	for b.Loop() {
		w.step(b.Context())
	}
}
