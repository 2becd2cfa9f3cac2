package wait

import (
	"context"
	"sync/atomic"
	"time"

	"leash/lockcmd/script"
)

const (
	wantedDelay = 20 * time.Millisecond // such a wait is worth two requests to Redis
	// attempts between two events, at most; an event may be lost
	maxWantedPace = 8
)

// wantedNotifier tells the Leashes that hold a lock that a command waits for it here (LOCK.NOTIFY).
// Only the head of a queue tells them, after a short wait. It tells them again when the holders may
// have changed, and more and more rarely while it goes on to wait.
type wantedNotifier struct {
	holders  Holders
	lock     script.Lock
	token    int64 // the last token granted, as far as is known
	timer    *time.Timer
	after    int64 // tell holders with larger tokens; 0 for all
	attempts int   // since the last event
	pace     int   // attempts until the next event
	due      bool
	telling  atomic.Bool // they are being told
}

func newWantedNotifier(holders Holders, lock script.Lock, token int64) *wantedNotifier {
	return &wantedNotifier{
		holders: holders, lock: lock, token: token, timer: time.NewTimer(wantedDelay), due: true, pace: 1,
	}
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

// begin is called when the timer fires. It returns the token after which holders are to be told. It
// fails while others are being told; then the timer fires again.
func (n *wantedNotifier) begin() (after int64, ok bool) {
	if n.telling.Load() {
		n.timer.Reset(wantedDelay)
		return 0, false
	}
	if n.due, after = false, n.after; after == 0 {
		n.attempts, n.pace = 0, min(2*n.pace, maxWantedPace)
	}
	return after, true
}

// tellHolders runs when the notifier's timer fires. It does not block.
func (l *loop[R]) tellHolders() {
	n, m := l.wanted, l.machine
	after, ok := n.begin()
	if !ok || !m.isHead(l.waiter) {
		return
	}
	n.telling.Store(true)
	if !m.Tasks.Spawn(func() { m.tellUntilHeld(n, l.waiter, after) }) {
		n.telling.Store(false)
	}
}

// tellUntilHeld tells the holders. While the lock is free, somebody is about to take it, so it
// tries again.
func (m *Machine[R]) tellUntilHeld(n *wantedNotifier, w *Waiter[R], after int64) {
	defer n.telling.Store(false)
	for pause := wantedDelay; pause < m.Interval; pause *= 2 {
		if n.holders.TellOthers(n.lock, after) || !m.Redis.Sleep(context.Background(), pause) || !m.isHead(w) {
			return
		}
	}
}
