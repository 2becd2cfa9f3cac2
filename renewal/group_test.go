package renewal

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"
)

func TestR24RenewedEveryThirdOfTheTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, o := w.grant(5000, ttl)
		for range 600 {
			rest(time.Second)
			if left := w.store.left(h); left < ttl*2/3-time.Second {
				t.Fatalf("got %v left in the store, want two thirds of %v", left, ttl)
			}
		}
		o.want(t, "")
		if n := len(w.store.called()); n < 59 || n > 61 {
			t.Errorf("got %d calls in 600 s, want 60", n)
		}
	})
}

func TestR12SomeHoldsAreRenewedMoreOften(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, o := w.grant(0, 30*time.Second)
		calls := func(every time.Duration) int {
			w.SetPace(h, every)
			before := len(w.store.called())
			rest(time.Minute)
			return len(w.store.called()) - before
		}
		for every, want := range map[time.Duration]int{10 * time.Second: 6, 5 * time.Second: 12, time.Second: 60,
			time.Hour: 6} {
			if got := calls(every); got < want-1 || got > want+1 {
				t.Errorf("every %v: got %d calls in a minute, want %d", every, got, want)
			}
		}
		w.Add(h, Plan{TTL: 30 * time.Second, Every: 2 * time.Second})
		if got := calls(2 * time.Second); got < 29 || got > 31 {
			t.Errorf("got %d calls in a minute, want 30", got)
		}
		o.want(t, "")
		w.Remove(h)
		w.SetPace(h, time.Second)
		if !w.Until(h).IsZero() {
			t.Error("a hold that was removed is kept again")
		}
	})
}

func TestR24DatabasesApart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		for db := range 3 {
			for range 5 {
				h, _ := w.grant(7, ttl)
				w.Remove(h)
				w.Add(h, Plan{DB: db, Slot: 7, TTL: ttl, Until: Until(time.Now(), ttl)})
			}
		}
		rest(ttl / 3)
		calls := w.store.called()
		if len(calls) != 3 {
			t.Fatalf("got %d calls, want one a database", len(calls))
		}
		for _, c := range calls {
			if len(c.batches) != 1 || len(c.batches[0].Holds) != 5 || c.node != w.store.Node(c.batches[0].DB, 7) {
				t.Errorf("%s got %v", c.node, c.batches)
			}
		}
	})
}

func TestR24KindsApart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		kinds := make(map[*Hold]int)
		for kind := range 3 {
			for range 5 {
				h, _ := w.grant(7, ttl)
				w.Remove(h)
				w.Add(h, Plan{Kind: kind, Slot: 7, TTL: ttl, Until: Until(time.Now(), ttl)})
				kinds[h] = kind
			}
		}
		rest(ttl / 3)
		batches := 0
		for _, c := range w.store.called() {
			for _, b := range c.batches {
				batches++
				for _, h := range b.Holds {
					if kinds[h] != b.Kind {
						t.Errorf("a hold of kind %d is in a batch of kind %d", kinds[h], b.Kind)
					}
				}
				if len(b.Holds) != 5 {
					t.Errorf("got %d holds in a batch, want 5", len(b.Holds))
				}
			}
		}
		if batches != 3 {
			t.Errorf("got %d batches, want 3", batches)
		}
	})
}

func TestR24OneCallForEachNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.nodes = 2
		for slot := range 4 { // two groups for each node, due one after the other
			for range 6 {
				w.grant(run+slot, ttl)
			}
		}
		rest(ttl / 3)
		calls := w.store.called()
		if len(calls) != 2 {
			t.Fatalf("got %d calls, want one a node", len(calls))
		}
		for _, c := range calls {
			if len(c.batches) != 2 || len(c.batches[0].Holds) != 6 || c.at != calls[0].at {
				t.Errorf("%s got %d batches %v after the other node, want 2 at once", c.node, len(c.batches),
					c.at.Sub(calls[0].at))
			}
		}
	})
}

func TestR24NoCallIsLargeWhileTheNodeKeepsUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.delay = map[string]time.Duration{"node0": 3 * time.Millisecond}
		for slot := range run { // they become due within 5 ms, and the calls take longer
			for range 12 {
				w.grant(run+slot, ttl)
			}
		}
		for range 600 {
			w.grant(0, ttl)
		}
		rest(ttl/3 + time.Second)
		got := make(map[string]int)
		for _, c := range w.store.called() {
			size := ""
			for _, b := range c.batches {
				size += fmt.Sprint(" ", len(b.Holds))
			}
			got[size]++
		}
		if want := map[string]int{" 12 12": run / 2, " 31": 8, " 32": 11}; !maps.Equal(got, want) {
			t.Errorf("got calls of so many holds: %v, want %v", got, want)
		}
	})
}

func TestR24LongTTLsAreRenewedAtFixedTimes(t *testing.T) {
	for _, every := range []time.Duration{minTTL / 3, time.Second, 100 * 365 * 24 * time.Hour} {
		for slot := range slotCount {
			k := groupKey{slot: slot, every: every}
			if first := k.nextDue(0); first <= 0 || first > every || k.nextDue(first) != first+every {
				t.Fatalf("slot %d, every %v: got %v and then %v", slot, every, first, k.nextDue(first))
			}
		}
	}
}

func TestR24FewHoldsAreRenewedTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		var holds []*Hold
		for n := range 1000 {
			h, _ := w.grant(n*16, ttl)
			holds = append(holds, h)
		}
		for range 60 {
			rest(time.Second)
			for _, h := range holds {
				if left := w.store.left(h); left < ttl*2/3-ttl/90 {
					t.Fatalf("got %v left in the store, want two thirds of %v, or a little less the first time",
						left, ttl)
				}
			}
		}
		renewed := 0
		for _, c := range w.store.called() {
			for _, b := range c.batches {
				renewed += len(b.Holds)
			}
		}
		if calls := len(w.store.called()); renewed < 5900 || renewed > 6100 || calls > 60*8 {
			t.Errorf("got %d renewals in %d calls in a minute, want 6000 in 460 or so", renewed, calls)
		}
	})
}

func TestR24MassAcquireIsNotRenewedInWaves(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.nodes = 3
		random := rand.New(rand.NewPCG(1, 2))
		for range 9000 { // at the same moment
			w.grant(random.IntN(slotCount), ttl)
		}
		rest(ttl)
		perSecond := make([]int, 1+ttl/time.Second)
		for _, c := range w.store.called() {
			for _, b := range c.batches {
				perSecond[c.at.Sub(w.start)/time.Second] += len(b.Holds)
			}
		}
		for second, n := range perSecond[:ttl/time.Second] {
			if n < 600 || n > 1200 { // some are renewed together with others
				t.Errorf("second %d: %d holds were renewed, want about 900", second, n)
			}
		}
	})
}

// TestR24SlotsAreSpreadOverTheThird: A step renews what is due soon, too, which moves slots from
// one second to the one before.
func TestR24SlotsAreSpreadOverTheThird(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		for slot := 0; slot < slotCount; slot += 64 {
			for range calmRound { // so many that they need no others
				w.grant(slot, ttl)
			}
		}
		rest(10 * time.Second)
		perSecond := make(map[int]int)
		for _, c := range w.store.called() {
			for _, b := range c.batches {
				perSecond[int(c.at.Sub(w.start)/time.Second)] += len(b.Holds)
			}
		}
		const ahead = slotCount / 64 / aheadPart // slots in one step at most
		for second := range 10 {
			if n := perSecond[second] / calmRound; n < 25-ahead || n > 26+ahead {
				t.Errorf("second %d: got %d slots, want 25 or 26, and up to %d more or less", second, n, ahead)
			}
		}
	})
}
