package lockcmd

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	wantedDelay = 20 * time.Millisecond // so long a wait is worth two requests to Redis
	// looks later, at the most, it is told again, for news may be lost
	maxWantedPace = 8
)

// wantedNotifier lets the Leashes that carry the holds of a lock know that a command waits for it here
// (LOCK.NOTIFY). Only the head of a queue tells, when it has waited for a little while; again when
// the lock was free in between, or was handed over, for others hold it then; and as it goes on
// looking, more and more rarely.
type wantedNotifier struct {
	service    *Service
	waiter     *waiter
	token      int64 // of who has got the lock last, as far as is known
	timer      *time.Timer
	after      int64 // who has got it later is to be told; 0 for all who hold it
	attempts   int   // since it was told
	pace       int   // looks until it is told again
	due        bool
	publishing atomic.Bool // it is being told
}

func (s *Service) newWantedNotifier(w *waiter, token int64) *wantedNotifier {
	return &wantedNotifier{service: s, waiter: w, token: token, timer: time.NewTimer(wantedDelay), due: true, pace: 1}
}

// noteAttempt notes that the lock was found taken, by whom, and whether a message said before that it
// was free.
func (n *wantedNotifier) noteAttempt(woken bool, token int64) {
	others := token != 0 && token != n.token
	if woken {
		n.pace = 1
	}
	if n.attempts++; !n.due && (woken || others || n.attempts >= n.pace) {
		n.due, n.after = true, 0
		if !woken && n.attempts < n.pace {
			n.after = n.token
		}
		n.timer.Reset(wantedDelay)
	}
	if token != 0 {
		n.token = token
	}
}

// publishIfHead is for when the timer is over. It does not block.
func (n *wantedNotifier) publishIfHead() {
	if n.publishing.Load() { // about others
		n.timer.Reset(wantedDelay)
		return
	}
	s, after := n.service, n.after
	if n.due = false; after == 0 {
		n.attempts, n.pace = 0, min(2*n.pace, maxWantedPace)
	}
	if !s.queues.isHead(n.waiter) {
		return
	}
	n.publishing.Store(true)
	if !s.spawn(func() { n.publishUntilHeld(after) }) {
		n.publishing.Store(false)
	}
}

// publishUntilHeld looks who holds the lock. While it is free, somebody is about to take it: it looks again
// then.
func (n *wantedNotifier) publishUntilHeld(after int64) {
	defer n.publishing.Store(false)
	s, lock := n.service, n.waiter.acquisition.options.lock()
	for pause := wantedDelay; pause < s.attemptInterval; pause *= 2 {
		if s.publishWanted(lock, after) || !s.sleep(context.Background(), pause) || !s.queues.isHead(n.waiter) {
			return
		}
	}
}

// publishWanted says on the channels of other Leashes that somebody waits for a lock that they carry
// holds of, but for those up to a token. It reports whether anybody holds it, as far as Redis says.
func (s *Service) publishWanted(lock lockID, after int64) (held bool) {
	until := time.Now().Add(time.Second)
	info, err := s.inspect(lock, until)
	if err != nil {
		return true
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.capAtStop(until))
	defer cancel()
	for _, f := range info.holds {
		if f.record.token > after && carrierLeash(f.record.carrier) != s.uuid {
			s.database(lock.db).Publish(ctx, carrierChannel(f.record.carrier), holdEventText(wantedEvent, f.record.token, f.record.carrier, lock.key))
		}
	}
	return len(info.holds)+len(info.others) > 0
}
