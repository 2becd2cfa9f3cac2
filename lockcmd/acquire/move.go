package acquire

import (
	"context"
	"slices"
	"sync"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/renewal"
)

const (
	maxMoves  = 16                    // attempts of one MoveHere, because the hold has changed since it was read
	movePause = 50 * time.Millisecond // between two of them while another request is in progress
)

// MoveHere makes this connection the carrier of a hold of any connection and any Leash. which has
// its owner and its token. It reads who the carrier is, calls the script with that, and starts
// again if it has changed (R13). It blocks until Redis answers, at most until that time. What has
// an unknown outcome goes on in the background.
func (c *Carrier) MoveHere(lock script.Lock, which hold.Selector, until time.Time) Result {
	for range maxMoves {
		r, again := c.tryMoveHere(lock, which, until)
		switch {
		case r.Kind == Busy && r.Err == nil, again && !time.Now().Before(until):
			return notAccepted()
		case !again:
			return r
		}
	}
	return failed(refusal.NotHeld)
}

// tryMoveHere moves the hold once. again is true when it has changed since it was read.
func (c *Carrier) tryMoveHere(lock script.Lock, which hold.Selector, until time.Time) (r Result, again bool) {
	a := c.Acquirer
	_, f, ok, err := a.Seek(lock, which, until)
	switch {
	case err != nil:
		return Failure(err), false
	case !ok:
		return Result{Kind: Absent}, false
	}
	opts := &Options{Lock: lock, Mode: f.Mode, Owner: which.Owner, TTL: a.Holds.TTL}
	own, ok := c.lockOwnHold(opts)
	if !ok {
		return notAccepted(), false
	}
	if own != nil {
		defer own.UnlockRequests()
	}
	switch {
	case f.Record.Carrier == c.Name && own != nil && own.Token == which.Token:
		return Result{Kind: Granted, Token: which.Token}, false
	case f.Record.Carrier == c.Name: // a release, an undo or an ATTACH of it is in progress
		a.Redis.StoppedWithin(movePause)
		return failed(refusal.NotHeld), c.NewestReported(lock, which.Means) == nil
	case own == nil:
	case own.Token == which.Token: // it was moved away
		own.Ended(renewal.Repeated)
	default:
		if r, lost := c.settleGone(own, until); lost {
			return r, false
		}
	}
	return c.moveFound(opts, f, until)
}

// moveFound moves the hold that was found. An unknown outcome is repeated in the background,
// because a moved hold must have a carrier that knows of it.
func (c *Carrier) moveFound(opts *Options, f script.Hold, until time.Time) (r Result, again bool) {
	m := c.newArrival(opts, script.MoveArgs{
		Owner: opts.Owner, From: f.Ref(opts.Lock), Last: f.Record.Request, Request: c.Requests.Add(1),
	})
	r = m.send(until)
	switch r.Kind {
	case Unknown:
		moveDone := c.beginMove(opts.Lock, opts.Mode, opts.Owner)
		c.Acquirer.Tasks.Spawn(func() {
			defer moveDone()
			m.finish(time.Now().Add(max(script.Millis(f.Record.TTL), opts.TTL)))
		})
		return r, false
	case Moved:
		if _, err := m.carry(r); err != nil {
			r = Result{Kind: Busy, Err: err}
		}
	case Failed:
		if r.Err == refusal.Error(refusal.Elsewhere) {
			r.Err, again = refusal.Error(refusal.NotHeld), true
		}
	}
	m.Unlock()
	return r, again
}

// arrival is a hold that its owner moves to this carrier (R4): by LOCK.ATTACH, or by an acquire
// that repeats the hold's last request. One goroutine at a time uses it.
type arrival struct {
	*restore.Move
	carrier *Carrier
	options *Options
	end     time.Time // end of BLOCK; zero without
}

// newArrival makes the move of a hold to the carrier. args say which hold, and have the number of
// the request and, for ATTACH, that of the last one.
func (c *Carrier) newArrival(opts *Options, args script.MoveArgs) *arrival {
	args.Mode, args.From.Lock, args.Keep, args.Replicas = opts.Mode, opts.Lock, opts.TTL, opts.Replicas
	if opts.ID != "" {
		args.ID = script.RecordID(opts.ID)
	}
	return &arrival{Move: c.Acquirer.NewMove(&c.Carrier, args), carrier: c, options: opts}
}

// send sends the move. After an unknown outcome it may be sent again.
func (m *arrival) send(until time.Time) Result {
	m.Args.ReplicasIn = replicaWait(m.end)
	switch r, err := m.Send(until); {
	case err != nil:
		return Failure(err)
	case !r.Moved:
		return failed(refusal.Elsewhere)
	default:
		return Result{Kind: Moved, Token: r.Token, left: r.Left, sent: r.Sent, replicas: r.Replicas, move: r}
	}
}

// finish repeats the move until Redis answers. It returns the hold, or nil when this carrier does
// not have it.
func (m *arrival) finish(limit time.Time) *hold.Hold {
	defer m.Unlock()
	redis := m.carrier.Acquirer.Redis
	for time.Now().Before(limit) {
		switch r := m.send(redis.Deadline()); r.Kind {
		case Unknown, Busy:
			if redis.StoppedWithin(100 * time.Millisecond) {
				return nil
			}
		case Moved:
			h, _ := m.carry(r)
			return h
		default:
			return nil
		}
	}
	return nil
}

// carry makes the hold that has moved here one of the carrier's. If the connection has ended in
// between, the hold is settled the way that connection ended. With an error there is no hold.
func (m *arrival) carry(r Result) (h *hold.Hold, err error) {
	c := m.carrier
	g, until := m.options.grant(m.Args.Owner, &r), renewal.Until(r.sent, r.left)
	if !time.Now().Before(until) {
		return nil, refusal.Error(refusal.TooLate)
	}
	h = hold.New(&c.Carrier, &g)
	if c.attachHold(context.Background(), h, r.move.Record.LastID(), true, until) {
		m.check(h)
		return h, nil
	}
	h.Close()
	return nil, refusal.Error(refusal.Gone)
}

// check asks Redis whether the carrier still has h, which has just moved here. Its owner may have
// moved it on or released it before this Leash knew that it has h. The event about that came too
// early (R30).
func (m *arrival) check(h *hold.Hold) { m.carrier.Acquirer.Holds.Watchdog.Check(&h.Watch) }

// pendingMove is an owner's hold that may have moved to a carrier, or is being put back there. The
// owner's next request about it waits for that. Otherwise it would find a hold in Redis that this
// Leash does not know, or that is about to end.
type pendingMove struct {
	lock  script.Lock
	mode  *script.Mode
	owner string
	done  chan struct{}
}

// pendingMoves are those of a carrier. It is safe for concurrent use.
type pendingMoves struct {
	mu    sync.Mutex
	moves []*pendingMove
}

// beginMove makes requests of an owner about its hold wait until moveDone is called.
func (c *Carrier) beginMove(lock script.Lock, m *script.Mode, owner string) (moveDone func()) {
	pm := &pendingMove{lock, m, owner, make(chan struct{})}
	c.pendingMoves.mu.Lock()
	defer c.pendingMoves.mu.Unlock()
	c.pendingMoves.moves = append(c.pendingMoves.moves, pm)
	return func() {
		c.pendingMoves.mu.Lock()
		defer c.pendingMoves.mu.Unlock()
		i := slices.Index(c.pendingMoves.moves, pm)
		c.pendingMoves.moves = slices.Delete(c.pendingMoves.moves, i, i+1)
		close(pm.done)
	}
}

// awaitMoves waits until the owner's hold has no pending move, at most until the given time. It
// reports whether that is so.
func (c *Carrier) awaitMoves(lock script.Lock, m *script.Mode, owner string, until time.Time) bool {
	for {
		pm := c.pendingMoveOf(lock, m, owner)
		if pm == nil {
			return true
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-pm.done:
			timer.Stop()
			continue
		case <-timer.C:
		case <-c.Acquirer.Redis.Stopped:
		}
		timer.Stop()
		return false
	}
}

func (c *Carrier) pendingMoveOf(lock script.Lock, m *script.Mode, owner string) *pendingMove {
	c.pendingMoves.mu.Lock()
	defer c.pendingMoves.mu.Unlock()
	for _, pm := range c.pendingMoves.moves {
		if pm.lock == lock && pm.owner == owner && pm.mode.SameInRedis(m) {
			return pm
		}
	}
	return nil
}
