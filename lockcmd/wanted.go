package lockcmd

import (
	"context"
	"sync/atomic"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/script"
)

const (
	wantedDelay = 20 * time.Millisecond // such a wait is worth two requests to Redis
	// attempts between two events, at most; an event may be lost
	maxWantedPace = 8
)

// wantedNotifier tells the Leashes that hold a lock that a command waits for it here (LOCK.NOTIFY).
// Only the head of a queue publishes, after a short wait. It publishes again when the holders may
// have changed, and more and more rarely while it goes on to wait.
type wantedNotifier struct {
	service    *Service
	waiter     *waiter
	token      int64 // the last token granted, as far as is known
	timer      *time.Timer
	after      int64 // tell holders with larger tokens; 0 for all
	attempts   int   // since the last event
	pace       int   // attempts until the next event
	due        bool
	publishing atomic.Bool // an event is being published
}

func (s *Service) newWantedNotifier(w *waiter, token int64) *wantedNotifier {
	return &wantedNotifier{service: s, waiter: w, token: token, timer: time.NewTimer(wantedDelay), due: true, pace: 1}
}

// noteAttempt notes an attempt that found the lock taken: whether a message had said that it was
// free, and the token of its holder.
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

// publishIfHead runs when the timer fires. It does not block.
func (n *wantedNotifier) publishIfHead() {
	if n.publishing.Load() { // for other holders
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

// publishUntilHeld publishes to the holders. While the lock is free, somebody is about to take it,
// so it tries again.
func (n *wantedNotifier) publishUntilHeld(after int64) {
	defer n.publishing.Store(false)
	s, lock := n.service, n.waiter.Lock
	for pause := wantedDelay; pause < s.attemptInterval; pause *= 2 {
		if s.publishWanted(lock, after) || !s.redis.Sleep(context.Background(), pause) || !s.queues.isHead(n.waiter) {
			return
		}
	}
}

// publishWanted sends the event to other Leashes with holds of the lock, for tokens above after. It
// reports whether Redis says that the lock is held.
func (s *Service) publishWanted(lock script.Lock, after int64) (held bool) {
	until := time.Now().Add(time.Second)
	info, err := s.redis.Inspect(lock, until)
	if err != nil {
		return true
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.redis.CapAtStop(until))
	defer cancel()
	for _, f := range info.Holds {
		if f.Record.Token > after && script.CarrierLeash(f.Record.Carrier) != s.uuid {
			s.redis.Database(lock.DB).Publish(ctx, script.CarrierChannel(f.Record.Carrier),
				event.Text(event.Wanted, f.Record.Token, f.Record.Carrier, lock.Key))
		}
	}
	return len(info.Holds)+len(info.Others) > 0
}
