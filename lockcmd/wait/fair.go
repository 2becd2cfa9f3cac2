package wait

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// A FAIR waiter has a place in a queue in Redis, that of Redisson's RedissonFairLock. It is behind
// everybody who came before, through any Leash or from Java. Its first attempt adds it, each later
// one (R17) keeps it alive, and the end of its wait removes it. If its Leash dies, the next waiter
// that attempts removes it after FairTimeout.
//
// A FAIR waiter that gives up is taken out of the queue. The cost depends on how many wait behind
// it, because their scores change. So one script call at a time takes several waiters out of a
// queue, the last ones first. Otherwise thousands of waiters that vanish at once would block Redis
// for many seconds.

// FairTimeout is how long a waiter stays alive without an attempt. It leaves time for slow answers
// of Redis and is shorter than the lease of a dead holder.
const FairTimeout = 10 * time.Second

const (
	// how many waiters one call takes out; they take Redis about 1 ms
	maxDequeued     = 500
	maxDequeuePause = 50 * time.Millisecond // longest pause between two calls
	dequeueLimit    = 5 * time.Minute       // how long one call is repeated
)

// FairPlace is the place of a FAIR waiter in the queue in Redis.
type FairPlace struct {
	Lock    script.Lock
	Owner   string
	arrival int64 // order of arrival on this Leash
}

// Queue is the queue of the waiter on this Leash. It is of its owner only, because Redis keeps the
// order of the owners.
func (p FairPlace) Queue() QueueID {
	return QueueID{Lock: p.Lock, Channel: script.Fair.Channel(p.Lock.Key) + ":" + p.Owner}
}

// fairPlaces are the waiters that gave up and may still be in a queue in Redis.
type fairPlaces struct {
	arrivals atomic.Int64 // number of FAIR waiters so far
	mu       sync.Mutex
	// leaving has them by lock, in order of arrival; one task per lock works until its list is
	// empty. mu guards it.
	leaving map[script.Lock][]*leaver
}

// leaver is one waiter that gave up.
type leaver struct {
	FairPlace
	done chan struct{} // closed when it is out, or when nothing more is done
}

// Arrive makes the place of a FAIR waiter that arrives now.
func (m *Machine[R]) Arrive(lock script.Lock, owner string) FairPlace {
	return FairPlace{Lock: lock, Owner: owner, arrival: m.places.arrivals.Add(1)}
}

// Dequeue takes a waiter that gave up out of the queue in Redis, unless another command of its
// owner waits on this Leash. The request is repeated until Redis answers. Dequeue blocks only when
// this Leash has stopped. left is closed when the waiter is out.
func (m *Machine[R]) Dequeue(p FairPlace) (left <-chan struct{}) {
	l := &leaver{p, make(chan struct{})}
	if m.places.add(l) {
		if dequeue := func() { m.dequeueAll(p.Lock) }; !m.Tasks.Spawn(dequeue) {
			dequeue() // the Leash stops: try for a moment
		}
	}
	return l.done
}

// add reports whether the caller must start a task for the lock.
func (f *fairPlaces) add(next *leaver) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list, there := f.leaving[next.Lock]
	i, _ := slices.BinarySearchFunc(list, next.arrival, func(other *leaver, arrival int64) int {
		return int(other.arrival - arrival)
	})
	f.leaving[next.Lock] = slices.Insert(list, i, next)
	return !there
}

// take returns the next waiters to take out. It returns nil when none is left; then the next add
// starts a task again.
func (f *fairPlaces) take(lock script.Lock) []*leaver {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.leaving[lock]
	if len(list) == 0 {
		delete(f.leaving, lock)
		return nil
	}
	i := max(len(list)-maxDequeued, 0)
	next := slices.Clone(list[i:])
	clear(list[i:])
	f.leaving[lock] = list[:i]
	return next
}

// dequeueAll takes waiters out until none is left. After each call it pauses for as long as the
// call took. This leaves Redis time for others and makes the calls larger.
func (m *Machine[R]) dequeueAll(lock script.Lock) {
	for {
		list := m.places.take(lock)
		if list == nil {
			return
		}
		began := time.Now()
		m.dequeueSome(lock, list)
		for _, l := range list {
			close(l.done)
		}
		m.Redis.Sleep(context.Background(), min(time.Since(began), maxDequeuePause))
	}
}

// dequeueSome takes some waiters out in one call, which is repeated until Redis answers. A waiter
// whose owner waits by another command on this Leash stays.
func (m *Machine[R]) dequeueSome(lock script.Lock, list []*leaver) {
	for limit := time.Now().Add(dequeueLimit); ; {
		var owners []string
		for _, l := range list {
			if !m.Waiting(l.Queue()) && !slices.Contains(owners, l.Owner) {
				owners = append(owners, l.Owner)
			}
		}
		if len(owners) == 0 {
			return
		}
		err := m.Redis.Dequeue(lock, owners, m.Deadline(time.Time{}))
		if !transport.IsSilence(err) || time.Now().After(limit) ||
			!m.Redis.Sleep(context.Background(), time.Second) {
			return
		}
	}
}
