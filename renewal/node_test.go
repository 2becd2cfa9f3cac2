package renewal

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestR24SilentNodeDelaysNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.nodes = 2
		var sick, well *owner
		var alive *Hold
		for slot := range 200 {
			_, o := w.grant(2*slot, ttl)
			sick = o
			alive, well = w.grant(2*slot+1, ttl)
		}
		w.store.set(func(node string) fault {
			if node == "node0" {
				return hangs
			}
			return fine
		})
		for range 60 {
			rest(time.Second)
			if left := w.store.left(alive); left < ttl*2/3-time.Second {
				t.Fatalf("got %v left on the node that answers", left)
			}
		}
		sick.want(t, "lost: "+ReasonSilence)
		well.want(t, "")
	})
}

func TestR24ShortTTLsDoNotStarveLongOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.delay = map[string]time.Duration{"node0": 40 * time.Millisecond}
		long, o := w.grant(5, 2*time.Second)
		for range 800 { // 8 s of work
			w.lease(5, 200*time.Millisecond) // each round has 33 ms
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

func TestR24OverloadedNodeGetsFewerRenewals(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		// All holds take 6.3 s and those of one period 10 s, longer than a call may take.
		w.store.each = 700 * time.Microsecond
		var owners []*owner
		for slot := range 9000 {
			_, o := w.grant(slot, ttl)
			owners = append(owners, o)
		}
		for range 5 {
			w.CheckAll()
			rest(ttl)
		}
		for _, o := range owners {
			o.want(t, "")
		}
	})
}

func TestR24LaggingNodeGetsLargerRounds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.each = 2 * time.Millisecond // one call renews 500 holds a second, and 1200 are due
		var holds []*Hold
		for n := range 12_000 {
			h, _ := w.grant(n, ttl)
			holds = append(holds, h)
		}
		lag := time.Duration(0)
		for range 60 {
			rest(ttl/30 - ttl/1000) // at another moment each time
			lag = max(lag, time.Duration(w.Stats.Lag.Load()))
			for _, h := range holds {
				if left := w.store.left(h); left < ttl/2 {
					t.Fatalf("got %v left of a hold, want half of %v at least", left, ttl)
				}
			}
		}
		if lag < ttl/3/256 || lag > 5*time.Second {
			t.Errorf("got a lag of %v at most, want some", lag)
		}
	})
}

// TestR24LargeSlotOfADistantNode: The holds are renewed in many small calls, but not until they
// expire.
func TestR24LargeSlotOfADistantNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		w.store.delay = map[string]time.Duration{"node0": 50 * time.Millisecond}
		var owners []*owner
		// 25 calls of 0.5 s each, which is the timeout of a call
		for range 2000 {
			_, o := w.grant(0, 3*time.Second)
			owners = append(owners, o)
		}
		rest(20 * time.Second)
		for _, o := range owners {
			o.want(t, "")
		}
		if n := w.Stats.Unknowns.Load(); n > 0 {
			t.Errorf("got no answer of %d holds", n)
		}
	})
}

// TestR24SmallLagIsNoExcess: Acquires do not wait when renewals are a little late. How much is
// allowed depends on the TTL.
func TestR24SmallLagIsNoExcess(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		rest(time.Minute)
		for _, c := range []struct{ ttl, late, backoff, lag, excess time.Duration }{
			{48 * time.Second, -time.Second, 0, 0, 0}, // renewed early, together with others
			{48 * time.Second, time.Second, 0, time.Second, 0},
			{48 * time.Second, 3 * time.Second, 0, 3 * time.Second, 2 * time.Second},
			{480 * time.Millisecond, 30 * time.Millisecond, 0, 30 * time.Millisecond, 20 * time.Millisecond},
			{48 * time.Second, 3 * time.Second, time.Second, 0, 0}, // the node does not answer
		} {
			g := newTestGroup()
			// holds that are checked often need not be in time
			g.ttl, g.every, g.due = c.ttl, time.Millisecond, w.now()-c.late
			w.nodes = map[nodeKey]*node{{name: "a"}: {queue: []*group{g}, backoff: c.backoff}, {name: "b"}: {}}
			w.measureLag(w.now())
			if lag, excess := time.Duration(w.Stats.Lag.Load()),
				time.Duration(w.Stats.Excess.Load()); lag != c.lag || excess != c.excess {
				t.Errorf("%+v: got a lag of %v, too much by %v", c, lag, excess)
			}
		}
		w.nodes = make(map[nodeKey]*node)
	})
}

func TestCheckSomeChecksThoseSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		here, _ := w.grant(8001, time.Hour) // not due soon
		w.grant(8002, time.Hour)
		w.CheckSome(func(slot int) bool { return slot == 8001 })
		rest(time.Second)
		calls := w.store.called()
		if len(calls) != 1 || len(calls[0].batches) != 1 || calls[0].batches[0].Holds[0] != here {
			t.Errorf("got %d calls", len(calls))
		}
	})
}

// TestR24RoundsGrowWithTheLag: A round becomes larger when the node lags more. It is never larger
// than needed, because other requests wait for it.
func TestR24RoundsGrowWithTheLag(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		every, lag          time.Duration
		first               int // holds of the first group; the others have one
		holds, calls, batch int // batch is the most batches of a call
		calm                bool
	}{
		{1280 * ms, 0, 1, 16, 1, 16, true},
		{1280 * ms, 10 * ms, 1, 16, 1, 16, true},
		{1280 * ms, 10*ms + 1, 1, 32, 1, 32, false},
		{1280 * ms, 20 * ms, 1, 128, 1, 128, false},
		{1280 * ms, 40 * ms, 1, 512, 1, 512, false},
		{1280 * ms, time.Minute, 1, 1024, 1, 1024, false},
		{1280 * ms, -40 * ms, 1, 16, 1, 16, true}, // renewed early
		{1280 * ms, 0, 32, 32, 1, 1, true},
		{1280 * ms, 0, 62, 62, 2, 1, true},
		{1280 * ms, 625_000, 62, 62, 2, 1, true},
		// the eighth slot behind it is due before the round ends
		{1280 * ms, 625_001, 62, 62, 1, 1, true},
		{1280 * ms, -40 * ms, 62, 62, 2, 1, true},
		{1280 * ms, 0, 120, 120, 4, 1, true},
		{1280 * ms, ms, 120, 120, 2, 1, true},
		{1280 * ms, 20 * ms, 200, 226, 1, 27, false},
		{1280 * ms, 0, 2100, 2100, 1, 9, false},
		{time.Hour, 160 * ms, 1, 128, 1, 128, false}, // before acquires wait
		{1, 0, 1, 16, 1, 16, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, n := New(nil), &node{roundLimit: maxRound}
			for i := range maxRound {
				g := newTestGroup()
				g.every, g.due = c.every, w.now()-moment(c.lag)
				for range map[bool]int{true: c.first, false: 1}[i == 0] {
					g.add(&Hold{}, 0)
				}
				n.queue = append(n.queue, g)
			}
			r := &round{}
			w.take(n, r)
			calls, batch := 0, 0
			for some := range r.calls(func() bool { return false }) {
				calls, batch = calls+1, max(batch, len(some))
			}
			if len(r.holds) != c.holds || calls != c.calls || batch != c.batch || r.calm != c.calm {
				t.Errorf("got %d holds in %d calls of up to %d batches, calm %v, want %+v", len(r.holds), calls,
					batch, r.calm, c)
			}
		})
	}
}
