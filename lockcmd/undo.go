package lockcmd

import (
	"errors"
	"time"
)

// maxLate is how late a copy of an acquire may reach Redis and still be taken back, if the TTL is
// longer.
const maxLate = 5 * time.Minute

// undo takes back an acquire of unknown outcome: at once and until Redis answers, and once more a
// TTL later, for a late copy of it that grants the lock to nobody (R26). Of a hold that was entered
// again, the gate stays taken until it is known whether the entry counts. done is closed when Redis
// has answered.
func (s *Service) undo(t *try) (done <-chan struct{}) {
	own := t.own
	t.own = nil // the task has the gate now
	s.stats.undone.Add(1)
	// before the gate opens: what comes behind it must have a larger one
	number := t.carrier.requests.Add(1)
	answered := make(chan struct{})
	s.spawn(func() {
		s.takeBack(t, number, 0)
		if own != nil {
			own.close()
		}
		close(answered)
		s.takeBackLater(t, number)
	})
	return answered
}

// undoMoved takes back an acquire that moves the hold its ID names here: that one acquire, for the
// others are the owner's. carry makes the hold one of the carrier's, if it can. done is closed when
// Redis has answered.
func (s *Service) undoMoved(t *try, carry func() *hold) (done <-chan struct{}) {
	s.stats.undone.Add(1)
	late := t.late
	t.late = false // a late copy is seen to here
	settled := t.carrier.unsettle(t.wish.lock(), t.wish.mode, t.owner)
	answered := make(chan struct{})
	s.spawn(func() {
		h := carry()
		if h != nil {
			s.putBack(h, t.wish.id)
		}
		settled()
		if t.stands() {
			s.dequeue(t)
		}
		close(answered)
		switch {
		case late && h != nil:
			s.undoLater(t, h)
		case late:
			s.takeBackTwice(t)
		}
	})
	return answered
}

// undoRepeated takes back the acquire that t repeats, the last one of the carrier's own hold: it
// has counted, whether t has come to anything or not. The gate stays taken until Redis has
// answered, which done tells.
func (s *Service) undoRepeated(t *try) (done <-chan struct{}) {
	own := t.own
	t.own = nil // the task has the gate now
	s.stats.undone.Add(1)
	answered := make(chan struct{})
	s.spawn(func() {
		defer close(answered)
		s.putBackOpen(own, t.wish.id)
		if t.stands() {
			s.dequeue(t)
		}
	})
	return answered
}

// takeBackTwice takes back what a hand-over of unknown outcome may have granted, or may yet, to a
// waiter that has left.
func (s *Service) takeBackTwice(t *try) {
	number := t.carrier.requests.Add(1)
	s.takeBack(t, number, 0)
	s.takeBackLater(t, number)
}

func (s *Service) takeBackLater(t *try, number int64) {
	if !s.stopped(min(t.wish.ttl, maxLate)) {
		s.takeBack(t, number, 0)
	}
}

// undoLater takes back what a late copy of an acquire may have granted after the hold it made, h,
// was over again: another hold. What is left of h itself stays: whoever had it may still believe in
// it, for it was left to run out when the connection broke (R28).
func (s *Service) undoLater(t *try, h *hold) {
	number := t.carrier.requests.Add(1)
	if s.stopped(min(t.wish.ttl, maxLate)) {
		return
	}
	h.carrier.mu.Lock()
	gone := h.state == over
	h.carrier.mu.Unlock()
	if gone {
		s.takeBack(t, number, h.token)
	}
}

// takeBack sends the undo of t, under a number of its own, until it is answered, or the Service
// ends. The hold with the token keep stays; 0 for none.
func (s *Service) takeBack(t *try, number, keep int64) {
	r := &request{
		script: t.wish.mode.undo, db: t.wish.db, keys: t.wish.mode.endKeys(t.wish.key, t.owner), least: len(t.wish.mode.keys(t.wish.key, t.owner)),
		args: words(
			t.owner, t.carrier.name, t.number, number, t.wish.mode.channel(t.wish.key), s.cfg.publishMode(), keep,
		),
	}
	for {
		_, err := s.ask(r, s.deadline())
		if !errors.Is(err, errUnknown) && !errors.Is(err, errRefused) {
			break
		}
		if s.stopped(time.Second) {
			return
		}
	}
	if t.stands() {
		s.dequeue(t)
	}
}
