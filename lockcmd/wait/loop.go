package wait

import (
	"context"
	"math/rand/v2"
	"time"

	"leash/lockcmd/script"
)

// Wait is what a command waits for, and how.
type Wait[R Result] struct {
	Queue   QueueID
	Request Request[R]
	Command *Command     // Begin has begun its wait
	End     time.Time    // end of BLOCK; zero for none
	Turns   *script.Mode // of the list of turns (R21); nil without
	Fair    bool         // Redis has its place among the waiters of all Leashes
	Holders Holders      // are told that somebody waits; nil for nobody
	// last message on the channel before the first attempt, 0 if there was none
	LastMessage int64
}

// EndOf is the end of a BLOCK that begins now; zero without a limit.
func EndOf(block time.Duration) time.Time {
	if block == 0 {
		return time.Time{}
	}
	return time.Now().Add(block)
}

// Reason is why a wait ended.
type Reason int

// The reasons.
const (
	Answered Reason = iota // with the result of an attempt, or with a grant
	TimeOver               // BLOCK is over, or Unblock was called
	Gone                   // the client is gone
	Drained                // Drain was called
)

// End is how a wait ended.
type End struct {
	Reason      Reason
	CopyPending bool // a copy of a hand-over may still be on its way
}

// Wait waits in a queue until the request gets what it asks for, BLOCK is over, or ctx ends because
// the client is gone. seen is the result of the last attempt. When the time is over, r is the last
// answer of Redis, or the last result if Redis gave none.
func (m *Machine[R]) Wait(ctx context.Context, wt Wait[R], seen R) (r R, end End) {
	l := m.newLoop(wt, seen)
	defer func() {
		l.close(ctx)
		end.CopyPending = l.waiter.copyPending // it does not change any more
	}()
	for {
		if r, over := l.next(ctx); over {
			l.took = r.Outcome().State == Got
			return r, End{Reason: l.reason}
		}
	}
}

// loop is the wait of one command in its queue: what may wake it, and what is known so far. It
// belongs to one goroutine.
type loop[R Result] struct {
	Wait[R]
	machine   *Machine[R]
	waiter    *Waiter[R]
	seen      Outcome // of the last attempt
	answer    R       // the last result that Redis gave, or the last one if it gave none
	reason    Reason
	took      bool // the wait ended with what was waited for
	blockOver bool // BLOCK is over; only blockSlack is left

	blockEnd   *time.Timer // does not fire without an end
	retry      *time.Timer
	unblocked  <-chan struct{}
	subscribed <-chan struct{} // closed once no message can be missed; then nil
	wanted     *wantedNotifier // nil if holders are not told
	wantedDue  <-chan time.Time
}

// newLoop adds a waiter to its queue. The caller must call close.
func (m *Machine[R]) newLoop(wt Wait[R], seen R) *loop[R] {
	l := &loop[R]{Wait: wt, machine: m, seen: seen.Outcome(), answer: seen, unblocked: wt.Command.Unblocked()}
	l.waiter = m.join(wt.Queue, wt.Request, wt.Fair)
	if wt.Holders != nil {
		wt.Holders.TellHere(wt.Queue.Lock)
		l.wanted = newWantedNotifier(wt.Holders, wt.Queue.Lock, l.seen.Token)
		l.wantedDue = l.wanted.timer.C
	}
	l.subscribed = m.subscribe(wt.Queue)
	if l.seen.State == Taken && wt.LastMessage != 0 && wt.LastMessage == m.Channels.LastMessage(wt.Queue.Channel) {
		l.subscribed = nil // no message was missed since the first attempt
	}
	l.retry, l.blockEnd = time.NewTimer(m.Pause(l.seen)), time.NewTimer(time.Until(wt.End))
	if wt.End.IsZero() {
		l.blockEnd.Stop()
	}
	return l
}

// subscribe subscribes to the channel of a queue. Without a channel no message can be missed.
func (m *Machine[R]) subscribe(id QueueID) (ready <-chan struct{}) {
	if id.Channel != "" {
		return m.Channels.Subscribe(id.Channel, id.Lock)
	}
	done := make(chan struct{})
	close(done)
	return done
}

// close also takes out a waiter whose attempt panicked. Otherwise all behind it would wait for
// ever. The client's next command is to find the list of turns without this waiter.
func (l *loop[R]) close(ctx context.Context) {
	m, none := l.machine, *new(R)
	m.leave(l.waiter, none, true)
	if !l.took && l.Turns != nil && !m.Waiting(l.Queue) {
		AwaitLeft(ctx, m.leaveTurns(l.Queue, l.Turns), l.End)
	}
	l.retry.Stop()
	l.blockEnd.Stop()
	if l.Queue.Channel != "" {
		m.Channels.Unsubscribe(l.Queue.Channel, !l.Fair)
	}
	if l.wanted != nil {
		l.wanted.timer.Stop()
	}
}

// next waits for the next event and attempts if that may help. over reports the end of the wait,
// with its result.
func (l *loop[R]) next(ctx context.Context) (r R, over bool) {
	m, w, woken := l.machine, l.waiter, false
	select {
	case <-ctx.Done(): // the caller gives a last grant back, because it sees the same ctx
		m.leave(w, r, true)
		return l.finalResult(Gone), true
	case <-l.wantedDue:
		l.tellHolders()
		return r, false
	case <-l.blockEnd.C:
		return l.timeOver(l.blockOver)
	case <-l.unblocked:
		l.unblocked = nil
		return l.timeOver(false)
	case r = <-w.granted:
		m.leave(w, r, false)
		return r, true
	case <-l.subscribed: // no release can be missed now, so attempt again (R17)
		l.subscribed = nil
	case <-w.wake:
		woken = true
	case <-w.reserved: // for another Leash, which may be dead
		l.retry.Reset(minReservation + rand.N(minReservation/5))
		return r, false
	case <-l.retry.C:
	}
	if r, over = l.attempt(woken); !over {
		l.retry.Reset(m.Pause(l.seen))
	}
	return r, over
}

// timeOver leaves the queue at the end of BLOCK. If a release is about to grant the lock, it stays
// for blockSlack, unless must is set.
func (l *loop[R]) timeOver(must bool) (r R, over bool) {
	if l.machine.leave(l.waiter, r, must) {
		return l.finalResult(TimeOver), true
	}
	l.blockOver = true
	l.blockEnd.Reset(blockSlack)
	return r, false
}

// finalResult is the result at the end of a wait that ends for this reason. It is the grant, if
// there was one in the last moment.
func (l *loop[R]) finalResult(why Reason) R {
	select {
	case r := <-l.waiter.granted:
		return r
	default:
		l.reason = why
		return l.answer
	}
}

// attempt asks Redis if this waiter may attempt now.
func (l *loop[R]) attempt(woken bool) (r R, over bool) {
	m, w := l.machine, l.waiter
	if m.Draining() && m.leave(w, r, false) {
		return l.finalResult(Drained), true
	}
	if l.blockOver && m.leave(w, r, false) {
		return l.finalResult(TimeOver), true
	}
	at, ok := m.beginAttempt(w)
	if !ok {
		return r, false
	}
	r = l.Request.Attempt(m.Deadline(l.End), at)
	l.seen = r.Outcome()
	if l.seen.State == Taken || l.answer.Outcome().State != Taken {
		l.answer = r
	}
	if !l.seen.mayChange() { // no release may claim w before it has left
		if l.seen.ForAll {
			m.grantAll(w, r)
		}
		m.leave(w, r, true)
		return r, true
	}
	m.endAttempt(w)
	if l.wanted != nil {
		l.wanted.noteAttempt(woken, l.seen.Token)
	}
	return r, false
}
