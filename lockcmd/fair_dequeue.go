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
	maxDequeued     = 500
	maxDequeuePause = 50 * time.Millisecond // the pause between two calls, at the most
)

// dequeuer are those who have given up and may still stand in a queue in Redis.
type dequeuer struct {
	arrivals atomic.Int64 // how many have ever come to wait
	// mu guards the field below.
	mu sync.Mutex
	// by the queue, in the order they came; a task takes those of a queue out until it finds none
	lists map[lockID][]*dequeueRequest
}

// dequeueRequest is one of them.
type dequeueRequest struct {
	acquisition *acquisition
	done        chan struct{} // closed when it has left, and when nothing more is done about it
}

// dequeue takes t, which has given up, out of the queue in Redis, unless another command of its
// owner still stands there: that is repeated until Redis answers. It blocks only at the end of the
// Service. left is closed when t has left.
func (s *Service) dequeue(a *acquisition) (left <-chan struct{}) {
	r := &dequeueRequest{acquisition: a, done: make(chan struct{})}
	if lock := a.options.lock(); s.dequeuer.add(r, lock) {
		if dequeue := func() { s.dequeueAll(lock) }; !s.spawn(dequeue) {
			dequeue() // the Service ends: it is tried for a moment
		}
	}
	return r.done
}

// awaitDequeued lets t leave, and waits for that, but no longer than graceAfterBlock and not when its
// client is gone: Redis may be slow, and another command of the client's is to find what it has
// left.
func (s *Service) awaitDequeued(ctx context.Context, a *acquisition) {
	left := s.dequeue(a)
	timer := time.NewTimer(blockSlack)
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// add reports whether it is for the caller to see that those of this queue leave.
func (d *dequeuer) add(next *dequeueRequest, lock lockID) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, there := d.lists[lock]
	i, _ := slices.BinarySearchFunc(list, next.acquisition.arrival, func(other *dequeueRequest, arrival int64) int { return int(other.acquisition.arrival - arrival) })
	d.lists[lock] = slices.Insert(list, i, next)
	return !there
}

// take is who of a queue is to leave next; nobody when all have, and then the next one to leave is
// a first one.
func (d *dequeuer) take(lock lockID) []*dequeueRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.lists[lock]
	if len(list) == 0 {
		delete(d.lists, lock)
		return nil
	}
	i := max(len(list)-maxDequeued, 0)
	next := slices.Clone(list[i:])
	clear(list[i:])
	d.lists[lock] = list[:i]
	return next
}

// dequeueAll takes those out of a queue who have given up, until there are none. After each call it
// rests for as long as that took, so that Redis has time for others, and more can leave together.
func (s *Service) dequeueAll(lock lockID) {
	for {
		list := s.dequeuer.take(lock)
		if list == nil {
			return
		}
		began := time.Now()
		if s.dequeueSome(lock, list, s.fairHeartbeat) {
			s.spawn(func() { s.dequeueAgain(lock, list) })
		}
		for _, r := range list {
			close(r.done)
		}
		s.stoppedWithin(min(time.Since(began), maxDequeuePause))
	}
}

// dequeueAgain takes those out who stayed since they were heard of through another Leash, which was
// dead: there may be nobody behind them but Redisson's waiters, who do not look by themselves for
// minutes.
func (s *Service) dequeueAgain(lock lockID, list []*dequeueRequest) {
	if !s.stoppedWithin(s.fairHeartbeat + s.fairHeartbeat/8) { // Redis's clock may be slower
		s.dequeueSome(lock, list, 0)
	}
}

// dequeueSome takes some out of a queue, in one call, which is repeated until Redis answers. It reports
// whether any stay, for they are heard of through another Leash; it has soon to let hear of them,
// and when soon is 0 it has had that.
func (s *Service) dequeueSome(lock lockID, list []*dequeueRequest, heartbeat time.Duration) (stay bool) {
	for limit := time.Now().Add(maxLate); ; {
		stay, err := s.dequeueOnce(lock, list, heartbeat)
		if !errors.Is(err, errUnknown) && !errors.Is(err, errRefused) || time.Now().After(limit) || s.stoppedWithin(time.Second) {
			return stay
		}
	}
}

// dequeueOnce is one call. Who stands there for another command of its owner by now stays, through
// whatever Leash.
func (s *Service) dequeueOnce(lock lockID, list []*dequeueRequest, heartbeat time.Duration) (stay bool, err error) {
	args := scriptArgs(fair.channel(lock.key), s.cfg.publishMode(), s.fairBit, heartbeat.Milliseconds())
	named := len(args)
	for _, r := range list {
		if owner := r.acquisition.owner; !s.queues.waiting(r.acquisition.queueID()) && !slices.Contains(args[named:], owner) {
			args = append(args, owner)
		}
	}
	if len(args) == named {
		return false, nil
	}
	reply, err := s.ask(&scriptCall{script: dequeueScript, db: lock.db, keys: fair.endKeys(lock.key, ""), args: args}, s.deadline())
	return err == nil && reply == int64(0), err
}
