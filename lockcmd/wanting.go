package lockcmd

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	wantAfter = 20 * time.Millisecond // so long a wait is worth two requests to Redis
	// looks later, at the most, it is told again, for news may be lost
	wantAgain = 8
)

// wanting lets the Leashes that carry the holds of a lock know that a command waits for it here
// (LOCK.NOTIFY). Only the head of a queue tells, when it has waited for a little while; again when
// the lock was free in between, or was handed over, for others hold it then; and as it goes on
// looking, more and more rarely.
type wanting struct {
	service *Service
	waiter  *waiter
	token   int64 // of who has got the lock last, as far as is known
	timer   *time.Timer
	after   int64 // who has got it later is to be told; 0 for all who hold it
	looks   int   // since it was told
	pace    int   // looks until it is told again
	due     bool
	busy    atomic.Bool // it is being told
}

func (s *Service) newWanting(w *waiter, token int64) *wanting {
	return &wanting{service: s, waiter: w, token: token, timer: time.NewTimer(wantAfter), due: true, pace: 1}
}

// looked notes that the lock was found taken, by whom, and whether a message said before that it
// was free.
func (n *wanting) looked(woken bool, token int64) {
	others := token != 0 && token != n.token
	if woken {
		n.pace = 1
	}
	if n.looks++; !n.due && (woken || others || n.looks >= n.pace) {
		n.due, n.after = true, 0
		if !woken && n.looks < n.pace {
			n.after = n.token
		}
		n.timer.Reset(wantAfter)
	}
	if token != 0 {
		n.token = token
	}
}

// tell is for when the timer is over. It does not block.
func (n *wanting) tell() {
	if n.busy.Load() { // about others
		n.timer.Reset(wantAfter)
		return
	}
	s, after := n.service, n.after
	if n.due = false; after == 0 {
		n.looks, n.pace = 0, min(2*n.pace, wantAgain)
	}
	if !s.queues.first(n.waiter) {
		return
	}
	n.busy.Store(true)
	if !s.spawn(func() { n.tellAfar(after) }) {
		n.busy.Store(false)
	}
}

// tellAfar looks who holds the lock. While it is free, somebody is about to take it: it looks again
// then.
func (n *wanting) tellAfar(after int64) {
	defer n.busy.Store(false)
	s, lock := n.service, n.waiter.try.wish.lock()
	for pause := wantAfter; pause < s.every; pause *= 2 {
		if s.wantAfar(lock, after) || !s.rest(context.Background(), pause) || !s.queues.first(n.waiter) {
			return
		}
	}
}

// wantAfar says on the channels of other Leashes that somebody waits for a lock that they carry
// holds of, but for those up to a token. It reports whether anybody holds it, as far as Redis says.
func (s *Service) wantAfar(lock lockID, after int64) (held bool) {
	until := time.Now().Add(time.Second)
	l, err := s.inspect(lock, until)
	if err != nil {
		return true
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.within(until))
	defer cancel()
	for _, f := range l.holds {
		if f.record.token > after && carrierLeash(f.record.carrier) != s.uuid {
			s.database(lock.db).Publish(ctx, carrierChannel(f.record.carrier), newsText(wantedText, f.record.token, f.record.carrier, lock.key))
		}
	}
	return len(l.holds)+len(l.others) > 0
}
