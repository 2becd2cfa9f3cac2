package acquire

import (
	"cmp"
	"context"
	"slices"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
)

// AcquireAll takes all the keys, or at least quorum of them if that is not 0. Among the options are
// no key and no mode but a plain one. tokens are in the order of the keys, 0 for a key that it has
// not got. It blocks as Acquire does.
func (c *Carrier) AcquireAll(ctx context.Context, opts Options, keys []string, quorum int) (tokens []int64, r Result) {
	if err := c.Acquirer.admit(ctx, 1, keys...); err != nil {
		return nil, Result{Kind: Failed, Err: err}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // late attempts take nothing
	ma := newMultiRequest(ctx, c, keys, opts, quorum)
	forItself := func(opts Options) bool { return c.waitsForItself(&opts) }
	if opts.Wait && slices.ContainsFunc(ma.keys, forItself) {
		return nil, failed(refusal.Deadlock)
	}
	take := ma.takeAll
	if quorum > 0 {
		take = ma.takeMost
	}
	if r = c.endedWait(take()); r.Kind != Granted {
		ma.drop(0)
		return nil, r
	}
	got := make(map[string]int64, len(keys))
	for i, h := range ma.holds {
		if h != nil {
			got[ma.keys[i].Key] = h.Token
		}
	}
	for _, key := range keys {
		tokens = append(tokens, got[key])
	}
	return tokens, r
}

// multiRequest collects the holds of one MACQUIRE. What it gets are holds of the carrier at
// once, so the watchdog renews them. Nobody is told of them before there are enough of them. If
// there are not, they are released.
//
// Without QUORUM it takes the keys in their order. It waits for a key with all keys before it in
// hand and none after it. Of several commands that wait for each other, the one with the last key
// in hand can go on. So there is no deadlock.
type multiRequest struct {
	carrier *Carrier
	ctx     context.Context
	keys    []Options // sorted by key
	end     time.Time // end of BLOCK; zero without
	group   *hold.Group
	quorum  int // QUORUM; 0 for all

	holds []*hold.Hold // collected so far, by index in keys
	moved []bool       // moved from another connection, by ID
}

func newMultiRequest(ctx context.Context, c *Carrier, keys []string, opts Options, quorum int) *multiRequest {
	ma := &multiRequest{
		carrier: c, ctx: ctx, quorum: quorum, keys: make([]Options, len(keys)), group: &hold.Group{},
		holds: make([]*hold.Hold, len(keys)), moved: make([]bool, len(keys)), end: wait.EndOf(opts.Block),
	}
	for i, key := range keys {
		ma.keys[i] = opts
		ma.keys[i].Key = key
	}
	slices.SortFunc(ma.keys, func(a, b Options) int { return cmp.Compare(a.Key, b.Key) })
	return ma
}

// takeAll takes all keys.
func (ma *multiRequest) takeAll() Result {
	for {
		i := ma.firstMissing()
		if i < 0 {
			if r := ma.switchToLease(); r.Kind != Granted {
				return r
			}
			if r := ma.complete(len(ma.keys)); r.Kind != Taken {
				return r
			}
			continue // one was just lost
		}
		ma.drop(i)
		if r := ma.takeKey(i, ma.blockLeft()); r.Kind != Granted {
			return r
		}
		for _, kr := range ma.attemptMissing(len(ma.keys), ma.deadline()) {
			if kr.hold == nil && !(ma.mayWait() && kr.result.mayChange()) {
				return kr.result
			}
		}
	}
}

func (ma *multiRequest) mayWait() bool { return ma.keys[0].Wait }

// deadline is when an attempt must be answered.
func (ma *multiRequest) deadline() time.Time {
	return ma.carrier.Acquirer.Waits.Deadline(ma.end)
}

// blockLeft is what is left of BLOCK; 0 without one.
func (ma *multiRequest) blockLeft() time.Duration {
	if ma.end.IsZero() {
		return 0
	}
	return max(time.Until(ma.end), time.Millisecond)
}

// firstMissing is the index of the first key without a present hold, -1 for none.
func (ma *multiRequest) firstMissing() int {
	for i, h := range ma.holds {
		if h == nil || !h.IsPresent() {
			ma.holds[i] = nil
			return i
		}
	}
	return -1
}

// takeKey takes one key. If the command waits, it waits for at most block.
func (ma *multiRequest) takeKey(i int, block time.Duration) Result {
	end := time.Now().Add(block)
	a, r := ma.beginKey(i, ma.deadline())
	if a == nil {
		return r
	}
	defer a.unlockOwn()
	if ma.mayWait() && r.mayChange() {
		if !ma.beginWait() {
			return ma.keepResult(ma.concludeKey(i, a, failed(refusal.TooMany)))
		}
		if a.options.Block = block; block > 0 {
			a.end = end
		}
		r = ma.carrier.await(ma.ctx, a.wait(), r)
		a.copyPending = a.copyPending || r.copyPending
	}
	return ma.keepResult(ma.concludeKey(i, a, r))
}

// beginKey makes one attempt at a key. If others wait for it here, it counts as taken (R18). The
// request is nil when an earlier request about the hold has no answer.
func (ma *multiRequest) beginKey(i int, until time.Time) (*lockRequest, Result) {
	c, opts := ma.carrier, ma.keys[i]
	own, ok := c.lockOwnHold(&opts)
	if !ok {
		return nil, unknown(refusal.NotAccepted)
	}
	if ma.switchesToLease() && own == nil {
		opts.Lease, opts.TTL = false, max(opts.TTL, hold.MinTTL)
	}
	a := c.newLockRequest(opts, own)
	a.group = ma.group
	if !opts.Wait || !c.Acquirer.Waits.Waiting(a.queueID()) || c.skipsQueue(&opts) {
		return a, a.send(until)
	}
	return a, Result{Kind: Taken}
}

// keyResult is the result for one key.
type keyResult struct {
	index  int
	hold   *hold.Hold // nil without a grant
	result Result     // as returned by conclude
}

// concludeKey concludes the request for a key.
func (ma *multiRequest) concludeKey(i int, a *lockRequest, r Result) keyResult {
	kr := keyResult{index: i, result: a.conclude(ma.ctx, r)}
	if kr.result.Took() {
		kr.hold = a.granted
	}
	return kr
}

// keepResult collects the hold of a result.
func (ma *multiRequest) keepResult(kr keyResult) Result {
	if kr.hold == nil {
		return kr.result
	}
	ma.holds[kr.index], ma.moved[kr.index] = kr.hold, kr.result.Kind == Moved
	return Result{Kind: Granted}
}

// switchesToLease reports whether holds are renewed until all are there. A LEASE that counts from
// the first grant could be over before the last one.
func (ma *multiRequest) switchesToLease() bool {
	return ma.keys[0].Lease && ma.keys[0].Wait && ma.quorum == 0
}

// switchToLease gives the collected holds their LEASE. The result is granted unless Redis does not
// answer.
func (ma *multiRequest) switchToLease() Result {
	if !ma.switchesToLease() {
		return Result{Kind: Granted}
	}
	s, errs := ma.carrier.Acquirer, make([]error, len(ma.holds))
	s.InParallel(len(errs), func(i int) {
		errs[i] = transport.ErrUnknown // in case of a panic
		errs[i] = s.SwitchToLease(ma.holds[i], ma.group, ma.keys[i].TTL, ma.deadline())
	})
	for _, err := range errs {
		if err != nil {
			r := Failure(err)
			if r.Err == nil {
				r.Err = refusal.Error(refusal.NotAccepted)
			}
			return r
		}
	}
	return Result{Kind: Granted}
}

// complete gives the collected holds to the client if they are enough. Otherwise one was lost, and
// the result is taken, or the client is gone. With QUORUM they form a group.
func (ma *multiRequest) complete(enough int) Result {
	switch ok, gone := ma.carrier.Complete(ma.ctx, ma.group, ma.holds, ma.moved, enough, ma.quorum > 0); {
	case gone:
		return unknown(refusal.Gone)
	case !ok:
		return Result{Kind: Taken}
	}
	return Result{Kind: Granted}
}

// drop releases the collected holds from an index on. This includes holds of an earlier command
// with the same ID, because this command answers for it. It returns when Redis has answered, or
// after hold.EndTimeout.
func (ma *multiRequest) drop(from int) {
	s, done := ma.carrier.Acquirer, make(chan struct{})
	var dropped []*hold.Hold
	for i, h := range ma.holds[from:] {
		if h != nil {
			dropped, ma.holds[from+i] = append(dropped, h), nil
		}
	}
	putBack := func(i int) { s.PutBack(dropped[i], ma.keys[0].ID) } // they have one ID
	if len(dropped) > 0 && s.Tasks.Spawn(func() {
		defer close(done)
		s.InParallelByNode(len(dropped), func(i int) string { return dropped[i].Key() }, putBack)
	}) {
		s.Holds.AwaitEnd(done)
	}
}

// beginWait counts the command as waiting, once.
func (ma *multiRequest) beginWait() bool {
	_, waits := ma.carrier.Waits()
	return waits || ma.carrier.BeginWait()
}
