package lockcmd

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script/transport"
)

// multiAcquisition collects the holds of one MACQUIRE. What it gets are holds of the carrier at
// once, so the watchdog renews them. Nobody is told of them before there are enough of them. If
// there are not, they are released.
//
// Without QUORUM it takes the keys in their order. It waits for a key with all keys before it in
// hand and none after it. Of several commands that wait for each other, the one with the last key
// in hand can go on. So there is no deadlock.
type multiAcquisition struct {
	carrier *Carrier
	ctx     context.Context
	keys    []acquireOptions // sorted by key
	end     time.Time        // end of BLOCK; zero without
	group   *hold.Group
	quorum  int // QUORUM; 0 for all

	holds []*hold.Hold // collected so far, by index in keys
	moved []bool       // moved from another connection, by ID
}

func newMultiAcquisition(ctx context.Context, c *Carrier, keys []string, opts acquireOptions,
	bound int) *multiAcquisition {
	ma := &multiAcquisition{
		carrier: c, ctx: ctx, quorum: bound, keys: make([]acquireOptions, len(keys)), group: &hold.Group{},
		holds: make([]*hold.Hold, len(keys)), moved: make([]bool, len(keys)), end: endOf(opts.block),
	}
	for i, key := range keys {
		ma.keys[i] = opts
		ma.keys[i].key = key
	}
	slices.SortFunc(ma.keys, func(a, b acquireOptions) int { return cmp.Compare(a.key, b.key) })
	return ma
}

// deadlock reports whether the connection holds one of the keys under another owner, so that it
// would wait for itself (R5).
func (ma *multiAcquisition) deadlock() bool {
	return slices.ContainsFunc(ma.keys, func(opts acquireOptions) bool { return ma.carrier.waitsForItself(opts) })
}

// takeAll takes all keys.
func (ma *multiAcquisition) takeAll() result {
	for {
		i := ma.firstMissing()
		if i < 0 {
			if r := ma.switchToLease(); r.kind != granted {
				return r
			}
			if r := ma.complete(len(ma.keys)); r.kind != taken {
				return r
			}
			continue // one was just lost
		}
		ma.drop(i)
		if r := ma.takeKey(i, ma.blockLeft()); r.kind != granted {
			return r
		}
		for _, kr := range ma.attemptMissing(len(ma.keys), ma.deadline()) {
			if kr.hold == nil && !(ma.mayWait() && kr.result.mayChange()) {
				return kr.result
			}
		}
	}
}

// mayChange reports whether waiting may bring another result.
func (r result) mayChange() bool { return r.kind == taken || r.kind == busy }

func (ma *multiAcquisition) mayWait() bool { return ma.keys[0].wait }

// deadline is when an attempt must be answered.
func (ma *multiAcquisition) deadline() time.Time {
	return ma.carrier.service.waits.Deadline(ma.end)
}

// blockLeft is what is left of BLOCK; 0 without one.
func (ma *multiAcquisition) blockLeft() time.Duration {
	if ma.end.IsZero() {
		return 0
	}
	return max(time.Until(ma.end), time.Millisecond)
}

// firstMissing is the index of the first key without a present hold, -1 for none.
func (ma *multiAcquisition) firstMissing() int {
	for i, h := range ma.holds {
		if h == nil || !h.IsPresent() {
			ma.holds[i] = nil
			return i
		}
	}
	return -1
}

// takeKey takes one key. If the command waits, it waits for at most block.
func (ma *multiAcquisition) takeKey(i int, block time.Duration) result {
	end := time.Now().Add(block)
	a, r := ma.beginKey(i, ma.deadline())
	if a == nil {
		return r
	}
	defer a.unlockOwn()
	if ma.mayWait() && r.mayChange() {
		if !ma.beginWait() {
			return ma.keepResult(ma.concludeKey(i, a, result{kind: failed, text: msgLimit}))
		}
		if a.options.block = block; block > 0 {
			a.end = end
		}
		r = ma.carrier.await(ma.ctx, a.wait(), r)
		a.copyPending = a.copyPending || r.copyPending
	}
	return ma.keepResult(ma.concludeKey(i, a, r))
}

// beginKey makes one attempt at a key. If others wait for it here, it counts as taken (R18). The
// acquisition is nil when an earlier request about the hold has no answer.
func (ma *multiAcquisition) beginKey(i int, until time.Time) (*acquisition, result) {
	c, opts := ma.carrier, ma.keys[i]
	own, ok := c.lockOwnHold(opts)
	if !ok {
		return nil, result{kind: unknown, text: msgRefused}
	}
	if ma.switchesToLease() && own == nil {
		opts.Lease, opts.ttl = false, max(opts.ttl, MinTTL)
	}
	a := c.newAcquisition(opts, own)
	a.group = ma.group
	if !opts.wait || !c.service.waits.Waiting(a.queueID()) || c.skipsQueue(opts) {
		return a, a.send(until)
	}
	return a, result{kind: taken}
}

// keyResult is the result for one key.
type keyResult struct {
	index  int
	hold   *hold.Hold // nil without a grant
	result result     // as returned by conclude
}

// concludeKey concludes the acquisition of a key.
func (ma *multiAcquisition) concludeKey(i int, a *acquisition, r result) keyResult {
	h, r := a.conclude(ma.ctx, r)
	return keyResult{index: i, hold: h, result: r}
}

// keepResult collects the hold of a result.
func (ma *multiAcquisition) keepResult(kr keyResult) result {
	if kr.hold == nil {
		return kr.result
	}
	ma.holds[kr.index], ma.moved[kr.index] = kr.hold, kr.result.kind == moved
	return result{kind: granted}
}

// switchesToLease reports whether holds are renewed until all are there. A LEASE that counts from
// the first grant could be over before the last one.
func (ma *multiAcquisition) switchesToLease() bool {
	return ma.keys[0].Lease && ma.keys[0].wait && ma.quorum == 0
}

// switchToLease gives the collected holds their LEASE. The result is granted unless Redis does not
// answer.
func (ma *multiAcquisition) switchToLease() result {
	if !ma.switchesToLease() {
		return result{kind: granted}
	}
	s, errs := ma.carrier.service, make([]error, len(ma.holds))
	s.releaser.InParallel(len(errs), func(i int) {
		errs[i] = transport.ErrUnknown // in case of a panic
		errs[i] = s.switchToLease(ma.holds[i], ma.group, ma.keys[i].ttl, ma.deadline())
	})
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

// complete gives the collected holds to the client if they are enough. Otherwise one was lost, and
// the result is taken, or the client is gone. With QUORUM they form a group.
func (ma *multiAcquisition) complete(enough int) result {
	switch ok, gone := ma.carrier.Complete(ma.ctx, ma.group, ma.holds, ma.moved, enough, ma.quorum > 0); {
	case gone:
		return result{kind: unknown, text: msgGone}
	case !ok:
		return result{kind: taken}
	}
	return result{kind: granted}
}

// drop releases the collected holds from an index on. This includes holds of an earlier command
// with the same ID, because this command answers for it. It returns when Redis has answered, or
// after hold.EndTimeout.
func (ma *multiAcquisition) drop(from int) {
	s := ma.carrier.service
	var back sync.WaitGroup
	dropped := false
	for i := from; i < len(ma.holds); i++ {
		h := ma.holds[i]
		ma.holds[i] = nil
		if h == nil {
			continue
		}
		dropped = true
		back.Add(1)
		if !s.spawn(func() { defer back.Done(); s.releaser.PutBack(h, ma.keys[i].id) }) {
			back.Done()
		}
	}
	done := make(chan struct{})
	if !dropped || !s.spawn(func() { back.Wait(); close(done) }) {
		return
	}
	s.awaitEnd(done)
}

// beginWait counts the command as waiting, once.
func (ma *multiAcquisition) beginWait() bool {
	_, waits := ma.carrier.waiting.Waits()
	return waits || ma.carrier.beginWait()
}
