package lockcmd

import (
	"context"
	"math/rand/v2"
	"time"
)

// sojourn is a try's stay in the queue: what may wake it, and what is known so far. One
// goroutine's.
type sojourn struct {
	service *Service
	try     *try
	waiter  *waiter
	news    *wanting
	channel string
	end     time.Time     // of BLOCK; zero when there is none
	seen    result        // what the last look brought
	known   bool          // Redis has called the lock taken since the wait began
	ended   bool          // the time is over, but for the grace
	rest    time.Duration // for how long it is not to look

	over      <-chan time.Time
	unblocked <-chan struct{}
	ready     <-chan struct{} // the channel is listened to
	block     *time.Timer     // nil when there is no end
	again     *time.Timer
}

// newSojourn queues t; close must follow.
func (c *Carrier) newSojourn(t *try, seen result) *sojourn {
	s := c.service
	v := &sojourn{service: s, try: t, waiter: s.queues.join(t), channel: t.line().channel, seen: seen, known: seen.kind == taken}
	s.want(t.wish.lock())
	v.news = s.newWanting(v.waiter, seen.token)
	v.ready = s.ears.listen(v.channel, t.wish.lock())
	if seen.kind == taken && t.silence != 0 && t.silence == s.ears.silence(v.channel) {
		v.ready = nil // nothing was missed since the first look
	}
	v.unblocked = c.unblocked()
	if t.wish.block > 0 {
		v.end = t.end
		v.block = time.NewTimer(time.Until(t.end))
		v.over = v.block.C
	}
	v.again = time.NewTimer(s.lookAgain(seen, rand.Float64()))
	return v
}

// close also takes a waiter out of its queue that has not left: a look has panicked, and all behind
// it would wait for it for ever.
func (v *sojourn) close() {
	v.service.queues.leave(v.waiter, false, true)
	v.again.Stop()
	if v.block != nil {
		v.block.Stop()
	}
	v.service.ears.leave(v.channel, !v.try.wish.mode.fair)
	v.news.timer.Stop()
}

// next waits for whatever comes first, and looks then, if there is something to be seen. It reports
// whether the wait is over, and how.
func (v *sojourn) next(ctx context.Context) (r result, over bool) {
	s, w, woken := v.service, v.waiter, false
	select {
	case <-ctx.Done():
		return w.abandon(s), true
	case <-v.news.timer.C:
		v.news.tell()
		return r, false
	case <-v.over:
		return v.finish(v.ended)
	case <-v.unblocked:
		v.unblocked = nil
		return v.finish(false)
	case r := <-w.gift:
		s.queues.leave(w, true, false)
		return r, true
	case <-v.ready: // subscribed: now a release cannot be missed, so look once more (R17)
		v.ready = nil
	case <-w.wake:
		woken = true
	case <-v.again.C:
	}
	if r, over = v.look(woken); !over {
		v.again.Reset(v.pause())
	}
	return r, over
}

// pause is until it looks next, if nothing wakes it.
func (v *sojourn) pause() time.Duration {
	if v.rest > 0 {
		return v.rest
	}
	return v.service.lookAgain(v.seen, rand.Float64())
}

// finish leaves the queue at the end of the time. While a release is about to say whether the lock
// is ours it stays for the grace, unless it must.
func (v *sojourn) finish(must bool) (r result, over bool) {
	if v.service.queues.leave(v.waiter, false, must) {
		return v.waiter.last(v.seen, v.known), true
	}
	v.ended, v.over = true, time.After(graceAfterBlock)
	return r, false
}

// look asks Redis, if it is the waiter's turn to.
func (v *sojourn) look(woken bool) (r result, over bool) {
	s, w := v.service, v.waiter
	if s.draining.Load() && s.queues.leave(w, false, false) {
		return w.drained(), true
	}
	if v.ended && s.queues.leave(w, false, false) {
		return w.last(v.seen, v.known), true
	}
	ok := false
	if ok, v.rest = s.queues.look(w); !ok {
		return r, false
	}
	v.seen = v.try.send(lookUntil(s.deadline(), v.end))
	v.known = v.known || v.seen.kind == taken
	if v.seen.kind != taken && v.seen.kind != busy { // and nobody may claim w before it has left
		s.queues.leave(w, v.seen.kind == granted || v.seen.kind == moved, true)
		return v.seen, true
	}
	s.queues.looked(w)
	v.news.looked(woken, v.seen.token)
	return r, false
}
