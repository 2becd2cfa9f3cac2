package lockcmd

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	wantAfter = 20 * time.Millisecond // so long a wait is worth two requests to Redis
	wantAgain = 10                    // looks later it is told again, for news may be lost
)

// wanting lets the Leashes that carry the holds of a lock know that a command waits for it here (LOCK.NOTIFY). Only the head of a queue
// tells, when it has waited for a little while; then when the lock was free in between, for others hold it then; and now and then.
type wanting struct {
	service *Service
	waiter  *waiter
	timer   *time.Timer
	looks   int // since it was told
	due     bool
	busy    atomic.Bool // it is being told
}

func (s *Service) newWanting(w *waiter) *wanting {
	return &wanting{service: s, waiter: w, timer: time.NewTimer(wantAfter), due: true}
}

// looked notes that the lock was found taken, and whether a message said before that it was free.
func (n *wanting) looked(woken bool) {
	if n.looks++; !n.due && (woken || n.looks >= wantAgain) {
		n.due = true
		n.timer.Reset(wantAfter)
	}
}

// tell is for when the timer is over. It does not block.
func (n *wanting) tell() {
	s := n.service
	n.due, n.looks = false, 0
	if !s.queues.first(n.waiter) || n.busy.Swap(true) {
		return
	}
	lock := n.waiter.try.wish.lock()
	begun := s.spawn(func() {
		defer n.busy.Store(false)
		s.wantAfar(lock)
	})
	if !begun {
		n.busy.Store(false)
	}
}

// wantAfar says on the channels of other Leashes that somebody waits for a lock that they carry holds of.
func (s *Service) wantAfar(lock lockID) {
	until := time.Now().Add(time.Second)
	l, err := s.inspect(lock, until)
	if err != nil {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.within(until))
	defer cancel()
	for _, f := range l.holds {
		if carrierLeash(f.record.carrier) != s.uuid {
			s.database(lock.db).Publish(ctx, carrierChannel(f.record.carrier), newsText(wantedText, f.record.token, f.record.carrier, lock.key))
		}
	}
}
