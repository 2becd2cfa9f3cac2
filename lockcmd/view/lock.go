package view

import (
	"context"
	"slices"
	"time"

	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// Lock is a lock as people see it.
type Lock struct {
	State string // Held, Grace or Free
	Mode  string // as in LOCK.INFO; empty if it is not held
	// those that hold it, through any Leash and from Redisson
	Holds []Hold
	Left  time.Duration // until its key ends in Redis, or its grace period
	// commands that wait for it on this Leash, in order of arrival: at most MaxWaiters
	Queue     []Waiter
	Waiters   int // commands that wait for it on this Leash
	FairQueue int // FAIR waiters of all Leashes and of Redisson
}

// The states of a lock.
const (
	Held  = "held"
	Grace = "grace" // free, but its new master does not grant it yet
	Free  = "free"
)

// MaxWaiters is how many waiters a Lock shows.
const MaxWaiters = 200

// ViewLock shows a lock. It asks Redis, and blocks until Redis has answered, at most until that
// time. Of a semaphore it shows the permits of this Leash. The error is one of package transport.
func (v *Viewer) ViewLock(lock script.Lock, until time.Time) (Lock, error) {
	info, err := v.acquirer.Redis.Inspect(lock, until)
	isPermits := transport.HasCode(err, "WRONGTYPE")
	if err != nil && !isPermits {
		return Lock{}, err
	}
	l := Lock{State: Held, Left: max(info.Left, 0), FairQueue: info.Queue}
	for _, f := range slices.Concat(info.Holds, info.Others) {
		l.Holds = append(l.Holds, v.holdInRedis(lock, f, info.Now, l.Left))
	}
	if shown, held := info.Shown(); held {
		l.Mode = shown.Mode.Name
	} else { // a semaphore has no such holds
		for _, h := range v.acquirer.Holds.OfLock(lock) {
			if shown, ok := v.hold(h); ok && h.IsPermit() {
				l.Holds, l.Mode = append(l.Holds, shown), shown.Mode
			}
		}
	}
	if len(l.Holds) == 0 {
		l.State, l.Mode, l.Left = Free, "", max(v.acquirer.Masters.Left(lock.Key), 0)
		if l.Left > 0 {
			l.State = Grace
		}
	}
	l.Waiters = v.Waiting(lock)
	for _, w := range v.acquirer.Waits.First(lock, MaxWaiters) {
		l.Queue = append(l.Queue, viewWaiter(w))
	}
	return l, nil
}

// Waiting is the number of commands that wait for the lock on this Leash.
func (v *Viewer) Waiting(lock script.Lock) int {
	all, _ := v.acquirer.Waits.OfLock(lock)
	return all
}

// Locks returns the names of locks and semaphores that somebody holds through any Leash, as far as
// keys show: a plain lock's own key, or {name}:leash. It blocks until Redis answers.
func (v *Viewer) Locks(ctx context.Context, db int, keys []string) (names []string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithDeadline(ctx, v.acquirer.Redis.Deadline())
	defer cancel()
	return v.acquirer.Redis.Locks(ctx, db, keys)
}
