package lockcmd

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"leash/lockcmd/script"
)

// A FAIR waiter that gives up is taken out of the queue in Redis. The cost depends on how many wait
// behind it, because their scores change. So one script call at a time takes several waiters out of
// a queue, the last ones first. Otherwise thousands of waiters that vanish at once would block
// Redis for many seconds.

const (
	// how many waiters one call takes out; they take Redis about 1 ms
	maxDequeued     = 500
	maxDequeuePause = 50 * time.Millisecond // longest pause between two calls
)

// dequeuer has the waiters that gave up and may still be in a queue in Redis.
type dequeuer struct {
	arrivals atomic.Int64 // number of FAIR waiters so far
	// mu guards the field below.
	mu sync.Mutex
	// by lock, in order of arrival; one task per lock works until its list is empty
	lists map[script.Lock][]*dequeueRequest
}

// dequeueRequest is one waiter that gave up.
type dequeueRequest struct {
	acquisition *acquisition
	done        chan struct{} // closed when it is out, or when nothing more is done
}

// dequeue takes a waiter that gave up out of the queue in Redis, unless another command of its
// owner waits there. The request is repeated until Redis answers. dequeue blocks only when the
// Service ends. left is closed when the waiter is out.
func (s *Service) dequeue(a *acquisition) (left <-chan struct{}) {
	r := &dequeueRequest{acquisition: a, done: make(chan struct{})}
	if lock := a.options.lock(); s.dequeuer.add(r, lock) {
		if dequeue := func() { s.dequeueAll(lock) }; !s.spawn(dequeue) {
			dequeue() // the Service ends: try for a moment
		}
	}
	return r.done
}

// add reports whether the caller must start a task for this lock.
func (d *dequeuer) add(next *dequeueRequest, lock script.Lock) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, there := d.lists[lock]
	i, _ := slices.BinarySearchFunc(list, next.acquisition.arrival, func(other *dequeueRequest, arrival int64) int {
		return int(other.acquisition.arrival - arrival)
	})
	d.lists[lock] = slices.Insert(list, i, next)
	return !there
}

// take returns the next waiters to take out. It returns nil when none is left; then the next add
// starts a task again.
func (d *dequeuer) take(lock script.Lock) []*dequeueRequest {
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

// dequeueAll takes waiters out until none is left. After each call it pauses for as long as the
// call took. This leaves Redis time for others and makes the calls larger.
func (s *Service) dequeueAll(lock script.Lock) {
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
		s.redis.StoppedWithin(min(time.Since(began), maxDequeuePause))
	}
}

// dequeueAgain takes out waiters that stayed because another, now dead, Leash had refreshed them.
// Only waiters of Redisson may be behind them, which do not check by themselves for minutes.
func (s *Service) dequeueAgain(lock script.Lock, list []*dequeueRequest) {
	if !s.redis.StoppedWithin(s.fairHeartbeat + s.fairHeartbeat/8) { // Redis's clock may be slower
		s.dequeueSome(lock, list, 0)
	}
}

// dequeueSome takes some waiters out in one call, which is repeated until Redis answers. It reports
// whether any stay because another Leash has refreshed them. That Leash has heartbeat time to
// refresh them again. A heartbeat of 0 says that this time has passed.
func (s *Service) dequeueSome(lock script.Lock, list []*dequeueRequest, heartbeat time.Duration) (stay bool) {
	for limit := time.Now().Add(maxLate); ; {
		stay, err := s.dequeueOnce(lock, list, heartbeat)
		if !errors.Is(err, script.ErrUnknown) && !errors.Is(err, script.ErrRefused) || time.Now().After(limit) ||
			s.redis.StoppedWithin(time.Second) {
			return stay
		}
	}
}

// dequeueOnce is one such call. A waiter whose owner waits by another command, through any Leash,
// stays.
func (s *Service) dequeueOnce(lock script.Lock, list []*dequeueRequest, heartbeat time.Duration) (stay bool,
	err error) {
	var owners []string
	for _, r := range list {
		if owner := r.acquisition.owner; !s.waits.Waiting(r.acquisition.queueID()) && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
	}
	if len(owners) == 0 {
		return false, nil
	}
	return s.redis.Dequeue(lock, owners, s.fairBit, heartbeat, s.deadline())
}
