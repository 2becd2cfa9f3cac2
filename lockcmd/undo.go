package lockcmd

import (
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// maxLate is how late a copy of an acquire may reach Redis and still be taken back, if the TTL is
// longer.
const maxLate = 5 * time.Minute

// undo takes back an acquire of unknown outcome. It repeats that until Redis answers. It does so
// once more a TTL later, in case a late copy has granted the lock (R26). If the owner had a hold
// before, its requests stay locked until the answer. done is closed when Redis has answered.
func (s *Service) undo(a *acquisition) (done <-chan struct{}) {
	own := a.own
	a.own = nil // the task unlocks it
	s.stats.undone.Add(1)
	// The number is drawn before the unlock: later requests must have larger ones.
	number := a.carrier.Requests.Add(1)
	answered := make(chan struct{})
	s.spawn(func() {
		s.takeBack(a, number, 0)
		if own != nil {
			own.UnlockRequests()
		}
		close(answered)
		s.takeBackLater(a, number, nil)
	})
	return answered
}

// undoMoved takes back an acquire whose ID moved a hold here. It takes one count, because the
// others belong to the owner. carry makes the hold one of the carrier's, if it can. done is closed
// when Redis has answered.
func (s *Service) undoMoved(a *acquisition, carry func() *hold.Hold) (done <-chan struct{}) {
	s.stats.undone.Add(1)
	copyPending := a.copyPending
	a.copyPending = false // this task handles a late copy
	moveDone := a.carrier.beginMove(a.options.lock(), a.options.mode, a.owner)
	answered := make(chan struct{})
	s.spawn(func() {
		h := carry()
		if h != nil {
			s.releaser.PutBack(h, a.options.id)
		}
		moveDone()
		if a.waitsFair() {
			s.waits.Dequeue(a.fairPlace)
		}
		close(answered)
		switch {
		case copyPending && h != nil:
			s.undoLater(a, h)
		case copyPending:
			s.takeBackTwice(a)
		}
	})
	return answered
}

// undoRepeated takes back the last acquire of the carrier's own hold, which this command repeats.
// That acquire has counted. The requests stay locked until Redis has answered; then done is closed.
func (s *Service) undoRepeated(a *acquisition) (done <-chan struct{}) {
	own := a.own
	a.own = nil // the task unlocks it
	s.stats.undone.Add(1)
	answered := make(chan struct{})
	s.spawn(func() {
		defer close(answered)
		s.releaser.PutBackLocked(own, a.options.id)
		if a.waitsFair() {
			s.waits.Dequeue(a.fairPlace)
		}
	})
	return answered
}

// takeBackTwice takes back what a hand-over of unknown outcome has granted, or may grant, to a
// waiter that has left.
func (s *Service) takeBackTwice(a *acquisition) {
	number := a.carrier.Requests.Add(1)
	s.takeBack(a, number, 0)
	s.takeBackLater(a, number, nil)
}

// undoLater takes back another hold that a late copy of the acquire may have made after the end of
// h. What is left of h itself stays: it was left to expire when the connection broke, and its owner
// may still rely on it (R28).
func (s *Service) undoLater(a *acquisition, h *hold.Hold) {
	s.takeBackLater(a, a.carrier.Requests.Add(1), h)
}

// takeBackLater takes back, a TTL later, what a late copy has granted, except h; nil for none.
func (s *Service) takeBackLater(a *acquisition, number int64, h *hold.Hold) {
	switch stopped := s.redis.StoppedWithin(min(a.options.ttl, maxLate)); {
	case stopped:
	case h == nil:
		s.takeBack(a, number, 0)
	case h.IsGone():
		s.takeBack(a, number, h.Token)
	}
}

// takeBack sends the undo, with a number of its own, until Redis answers or the Service ends. The
// hold with the token keep stays; 0 for none.
func (s *Service) takeBack(a *acquisition, number, keep int64) {
	answered := s.redis.Undo(script.UndoArgs{
		Lock: a.options.lock(), Mode: a.options.mode, Owner: a.owner, Carrier: a.carrier.Name,
		Acquire: a.number, Number: number, Keep: keep,
	})
	if answered && a.waitsFair() {
		s.waits.Dequeue(a.fairPlace)
	}
}
