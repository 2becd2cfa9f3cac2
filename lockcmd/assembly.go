package lockcmd

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"leash/internal/guard"
)

// assembly is the holds of one MACQUIRE in the making. What it gets are holds of the carrier at
// once, so the watchdog keeps them, but nobody is told of them: they become the client's when there
// are enough, or go back.
//
// All of the keys are taken in their order, the next one waited for with those before it in hand
// and none behind it: of any who wait for one another the one whose key comes last goes on, so two
// of them never wait for each other.
type assembly struct {
	carrier *Carrier
	ctx     context.Context
	wishes  []wish    // in the order of their keys
	end     time.Time // of BLOCK; zero when there is none
	bundle  *bundle
	bound   int  // QUORUM; 0 for all
	waits   bool // the command is counted among those that wait

	holds []*hold // what is in hand, by wish
	moved []bool  // it came from another connection, by its ID
}

func newAssembly(ctx context.Context, c *Carrier, keys []string, w wish, bound int) *assembly {
	a := &assembly{
		carrier: c, ctx: ctx, bound: bound, wishes: make([]wish, len(keys)), bundle: &bundle{},
		holds: make([]*hold, len(keys)), moved: make([]bool, len(keys)),
	}
	for i, key := range keys {
		a.wishes[i] = w
		a.wishes[i].key = key
	}
	slices.SortFunc(a.wishes, func(a, b wish) int { return cmp.Compare(a.key, b.key) })
	if w.block > 0 {
		a.end = time.Now().Add(w.block)
	}
	return a
}

// deadlock reports whether the connection holds one of the keys under another owner: it would wait
// for itself (R5).
func (a *assembly) deadlock() bool {
	return slices.ContainsFunc(a.wishes, func(w wish) bool { return a.carrier.waitsForItself(w) })
}

// takeAll takes all the keys: granted, or why not.
func (a *assembly) takeAll() result {
	for {
		i := a.missing()
		if i < 0 {
			if r := a.lend(); r.kind != granted {
				return r
			}
			if r := a.complete(len(a.wishes)); r.kind != taken {
				return r
			}
			continue // one was lost in the last moment
		}
		a.drop(i)
		if r := a.take(i, a.left()); r.kind != granted {
			return r
		}
		for _, l := range a.look(len(a.wishes), a.deadline()) {
			if l.hold == nil && !(a.mayWait() && l.result.mayPass()) {
				return l.result
			}
		}
	}
}

// mayPass reports whether waiting may change it.
func (r result) mayPass() bool { return r.kind == taken || r.kind == busy }

func (a *assembly) mayWait() bool { return a.wishes[0].wait }

// deadline is when a look must be answered.
func (a *assembly) deadline() time.Time { return lookUntil(a.carrier.service.deadline(), a.end) }

// left is what is left of BLOCK, as a wish has it.
func (a *assembly) left() time.Duration {
	if a.end.IsZero() {
		return 0
	}
	return max(time.Until(a.end), time.Millisecond)
}

// missing is the first wish without a hold, -1 when there is none. A hold that is not there any
// more is none.
func (a *assembly) missing() int {
	for i, h := range a.holds {
		if h == nil || !h.remains() {
			a.holds[i] = nil
			return i
		}
	}
	return -1
}

// take takes one key, waiting for it for block if that may be.
func (a *assembly) take(i int, block time.Duration) result {
	end := time.Now().Add(block)
	t, r := a.begin(i, a.deadline())
	if t == nil {
		return r
	}
	defer t.release()
	if a.mayWait() && r.mayPass() {
		if !a.beginWait() {
			return a.keep(a.settle(i, t, result{kind: failed, text: msgLimit}))
		}
		if t.wish.block = block; block > 0 {
			t.end = end
		}
		r = a.carrier.await(a.ctx, t, r)
	}
	return a.keep(a.settle(i, t, r))
}

// begin looks once at a key. Who came first goes first: while others wait for it here, it counts as
// taken (R18). There is no try when an earlier request about the hold has no answer yet.
func (a *assembly) begin(i int, until time.Time) (*try, result) {
	c, w := a.carrier, a.wishes[i]
	own, ok := c.enter(w)
	if !ok {
		return nil, result{kind: unknown, text: msgRefused}
	}
	if a.lends() && own == nil {
		w.lease, w.ttl = false, max(w.ttl, MinTTL)
	}
	t := c.newTry(w, own)
	t.bundle = a.bundle
	if !w.wait || !c.service.queues.waiting(t.line()) || c.first(w) {
		return t, t.send(until)
	}
	return t, result{kind: taken}
}

// got is what came of one key.
type got struct {
	index  int
	hold   *hold  // nil when it was not got
	result result // as conclude has it
}

// settle ends a try.
func (a *assembly) settle(i int, t *try, r result) got {
	h, r := t.conclude(a.ctx, r)
	return got{index: i, hold: h, result: r}
}

// keep takes what came of a key in hand.
func (a *assembly) keep(g got) result {
	if g.hold == nil {
		return g.result
	}
	a.holds[g.index], a.moved[g.index] = g.hold, g.result.kind == moved
	return result{kind: granted}
}

// lends reports whether holds are renewed until all are there: a LEASE that counted from the first
// grant on could be over before the last.
func (a *assembly) lends() bool { return a.wishes[0].lease && a.wishes[0].wait && a.bound == 0 }

// lend gives the holds in hand their LEASE. It is granted unless Redis does not say whether it was
// done.
func (a *assembly) lend() result {
	if !a.lends() {
		return result{kind: granted}
	}
	errs := make([]error, len(a.holds))
	var wg sync.WaitGroup
	room := make(chan struct{}, endWorkers)
	for i, h := range a.holds {
		room <- struct{}{}
		wg.Go(func() {
			errs[i] = guard.Call(a.carrier.service.log, "lease", func() error {
				return h.lend(a.bundle, a.wishes[i].ttl, a.deadline())
			})
			<-room
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			r := failure(err)
			if r.text == "" {
				r.text = msgRefused
			}
			return r
		}
	}
	return result{kind: granted}
}

// complete makes what is in hand the client's, if that is as many holds as there must be: else one
// was lost, and it is taken, or the client is gone. With QUORUM they are bound to one another. This
// and its disconnect are decided under the carrier's mutex (R19).
func (a *assembly) complete(enough int) result {
	c := a.carrier
	c.mu.Lock()
	defer c.mu.Unlock()
	var fresh []*hold
	n := 0
	for i, h := range a.holds {
		switch {
		case h == nil:
		case !h.remainsLocked():
			a.holds[i] = nil
		default:
			n++
			// one moved is this command's, if it has no other acquire
			if h.rare().bundle == a.bundle || a.bound > 0 && a.moved[i] && h.count == 1 {
				fresh = append(fresh, h)
			}
		}
	}
	switch {
	case c.ended || a.ctx.Err() != nil:
		return result{kind: unknown, text: msgGone}
	case n < enough:
		return result{kind: taken}
	}
	for _, h := range fresh {
		if x := h.rare(); x.max > 0 && x.limit.IsZero() {
			h.extra.limit = time.Now().Add(x.max)
			h.startTimerLocked()
		}
	}
	if a.bound > 0 {
		a.bundle.least, a.bundle.holds = enough-(n-len(fresh)), fresh
		for _, h := range fresh {
			h.more().bundle = a.bundle
		}
		return result{kind: granted}
	}
	for _, h := range fresh {
		h.unbundle()
	}
	return result{kind: granted}
}

// drop gives back what is in hand of the wishes from one on: also what an earlier command of the
// same ID took, for this one answers in its place. It returns when Redis has it, or after
// endPatience.
func (a *assembly) drop(from int) {
	s := a.carrier.service
	var back sync.WaitGroup
	dropped := false
	for i := from; i < len(a.holds); i++ {
		h := a.holds[i]
		a.holds[i] = nil
		if h == nil {
			continue
		}
		dropped = true
		back.Add(1)
		if !s.spawn(func() { defer back.Done(); s.putBack(h, a.wishes[i].id) }) {
			back.Done()
		}
	}
	done := make(chan struct{})
	if !dropped || !s.spawn(func() { back.Wait(); close(done) }) {
		return
	}
	timer := time.NewTimer(endPatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-s.stop:
	}
}

// putBack releases one acquire of a hold, until Redis answers. When that is done its ID has not
// been used: a repetition of the command counts again.
func (s *Service) putBack(h *hold, id string) {
	for !h.open(s.deadline()) {
		if h.is(over) || s.stopped(0) {
			return
		}
	}
	s.putBackOpen(h, id)
}

// putBackOpen is putBack of a hold whose gate is ours. It gives it back.
func (s *Service) putBackOpen(h *hold, id string) {
	if e := s.beginEnding(h, false); e != nil {
		e.back = recordID(id)
		e.finish() // it has the gate
		return
	}
	h.close() // it has ended by itself
}

// beginWait counts the command among those that wait, once.
func (a *assembly) beginWait() bool {
	if !a.waits {
		a.waits = a.carrier.beginWait()
	}
	return a.waits
}

func (a *assembly) endWait() {
	if a.waits {
		a.waits = false
		a.carrier.endWait()
	}
}

// isIn reports whether h was taken for that bundle.
func (h *hold) isIn(b *bundle) bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.rare().bundle == b
}

// turnsToLease makes a hold of an assembly that is renewed one that is not.
func (h *hold) turnsToLease(of *bundle) bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if h.rare().bundle != of || h.lease || h.state != held {
		return false
	}
	h.lease = true
	return true
}

// lastID is the ID of the last acquire.
func (h *hold) lastID() string {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.rare().last
}
