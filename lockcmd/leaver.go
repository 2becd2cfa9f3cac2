package lockcmd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Who gives up waiting FAIR is taken out of the queue in Redis. That costs Redis as much as there
// stand behind it, whose scores change; so of each queue one call of a script at a time takes out
// several, those who came last first. Thousands who vanish at once would else keep Redis for many
// seconds.

const (
	// how many leave in one call: this many cost Redis a millisecond, whoever stands behind them
	// apart
	maxLeavers = 500
	maxRest    = 50 * time.Millisecond // the pause between two calls, at the most
)

// leavers are those who have given up and may still stand in a queue in Redis.
type leavers struct {
	came atomic.Int64 // how many have ever come to wait
	// mu guards the field below.
	mu sync.Mutex
	// by the queue, in the order they came; a task takes those of a queue out until it finds none
	lists map[lockID][]*leaver
}

// leaver is one of them.
type leaver struct {
	try  *try
	left chan struct{} // closed when it has left, and when nothing more is done about it
}

// dequeue takes t, which has given up, out of the queue in Redis, unless another command of its
// owner still stands there: that is repeated until Redis answers. It blocks only at the end of the
// Service. left is closed when t has left.
func (s *Service) dequeue(t *try) (left <-chan struct{}) {
	l := &leaver{try: t, left: make(chan struct{})}
	if lock := t.wish.lock(); s.leavers.add(l, lock) {
		if let := func() { s.letLeave(lock) }; !s.spawn(let) {
			let() // the Service ends: it is tried for a moment
		}
	}
	return l.left
}

// awaitLeft lets t leave, and waits for that, but no longer than graceAfterBlock and not when its
// client is gone: Redis may be slow, and another command of the client's is to find what it has
// left.
func (s *Service) awaitLeft(ctx context.Context, t *try) {
	left := s.dequeue(t)
	timer := time.NewTimer(graceAfterBlock)
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// add reports whether it is for the caller to see that those of this queue leave.
func (l *leavers) add(next *leaver, lock lockID) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, there := l.lists[lock]
	i, _ := slices.BinarySearchFunc(list, next.try.came, func(other *leaver, came int64) int { return int(other.try.came - came) })
	l.lists[lock] = slices.Insert(list, i, next)
	return !there
}

// take is who of a queue is to leave next; nobody when all have, and then the next one to leave is
// a first one.
func (l *leavers) take(lock lockID) []*leaver {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.lists[lock]
	if len(list) == 0 {
		delete(l.lists, lock)
		return nil
	}
	i := max(len(list)-maxLeavers, 0)
	next := slices.Clone(list[i:])
	clear(list[i:])
	l.lists[lock] = list[:i]
	return next
}

// letLeave takes those out of a queue who have given up, until there are none. After each call it
// rests for as long as that took, so that Redis has time for others, and more can leave together.
func (s *Service) letLeave(lock lockID) {
	for {
		list := s.leavers.take(lock)
		if list == nil {
			return
		}
		began := time.Now()
		if s.leave(lock, list, s.soon) {
			s.spawn(func() { s.leaveAgain(lock, list) })
		}
		for _, l := range list {
			close(l.left)
		}
		s.stopped(min(time.Since(began), maxRest))
	}
}

// leaveAgain takes those out who stayed since they were heard of through another Leash, which was
// dead: there may be nobody behind them but Redisson's waiters, who do not look by themselves for
// minutes.
func (s *Service) leaveAgain(lock lockID, list []*leaver) {
	if !s.stopped(s.soon + s.soon/8) { // Redis's clock may be slower
		s.leave(lock, list, 0)
	}
}

// leave takes some out of a queue, in one call, which is repeated until Redis answers. It reports
// whether any stay, for they are heard of through another Leash; it has soon to let hear of them,
// and when soon is 0 it has had that.
func (s *Service) leave(lock lockID, list []*leaver, soon time.Duration) (stay bool) {
	for limit := time.Now().Add(maxLate); ; {
		stay, err := s.leaveOnce(lock, list, soon)
		if !errors.Is(err, errUnknown) && !errors.Is(err, errRefused) || time.Now().After(limit) || s.stopped(time.Second) {
			return stay
		}
	}
}

// leaveOnce is one call. Who stands there for another command of its owner by now stays, through
// whatever Leash.
func (s *Service) leaveOnce(lock lockID, list []*leaver, soon time.Duration) (stay bool, err error) {
	args := words(fair.channel(lock.key), s.cfg.publishMode(), s.way, soon.Milliseconds())
	named := len(args)
	for _, l := range list {
		if owner := l.try.owner; !s.queues.waiting(l.try.line()) && !slices.Contains(args[named:], owner) {
			args = append(args, owner)
		}
	}
	if len(args) == named {
		return false, nil
	}
	reply, err := s.ask(&request{script: leaveScript, db: lock.db, keys: fair.endKeys(lock.key, ""), args: args}, s.deadline())
	return err == nil && reply == int64(0), err
}
