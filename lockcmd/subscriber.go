package lockcmd

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	sweepEvery = 2 * time.Second // pause between two searches for unused channels
	// how long a channel stays subscribed after its last waiter, since another one may come
	subLinger = 5 * time.Second
)

// Subscriber receives published messages for a Service; the proxy provides it (R20). It renews its
// subscriptions by itself after any change of nodes and slots.
type Subscriber interface {
	// Subscribe subscribes to a channel: plain, sharded or both. Without sharded channels in Redis
	// it ignores sharded. It does not block. ready is closed when no message can be missed any
	// more. handle gets each message, or nil when some may have been missed. handle must not block,
	// and a last call may come after cancel, which ends the subscription.
	Subscribe(channel string, plain, sharded bool, handle func(message []byte)) (ready <-chan struct{}, cancel func())
}

// subscriber receives wake-ups and hold events of this Leash. It subscribes to a channel once for
// all waiters.
type subscriber struct {
	service      *Service
	from         Subscriber
	eventChannel string // of this Leash: leash:<uuid>

	// mu guards the fields below and the subs.
	mu       sync.Mutex
	subs     map[string]*sub
	messages int64 // grows with each message and each new sub
}

// sub is one subscribed channel.
type sub struct {
	locks       []lockID // locks of the channel, one in each database
	users       int
	since       time.Time // when users became 0
	ready       <-chan struct{}
	cancel      func()
	lastMessage int64                      // subscriber.messages at its last message or its start
	wakes       map[chan struct{}]struct{} // users that get a wake-up for each message
}

func newSubscriber(s *Service, from Subscriber) *subscriber {
	return &subscriber{service: s, from: from, eventChannel: "leash:" + s.uuid, subs: make(map[string]*sub)}
}

// subscribe subscribes to the channel of a lock, once for all users. ready is closed when no
// message can be missed any more.
func (l *subscriber) subscribe(channel string, lock lockID) (ready <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.subs[channel]
	if c == nil {
		l.messages++
		c = &sub{lastMessage: l.messages}
		l.subs[channel] = c
		plain, sharded := l.service.cfg.Publish != PublishSharded, l.service.cfg.Publish != PublishPlain
		c.ready, c.cancel = l.from.Subscribe(channel, plain, sharded, func(message []byte) { l.wakeWaiters(channel, isTurnMessage(message)) })
	}
	if !slices.Contains(c.locks, lock) {
		c.locks = append(c.locks, lock)
	}
	c.users++
	return c.ready
}

// subscribeWaiter is subscribe for a user that wants a wake-up when messages came or may have been
// missed. Call leave at the end.
func (l *subscriber) subscribeWaiter(channel string, lock lockID) (ready <-chan struct{}, wake <-chan struct{}, leave func()) {
	ready = l.subscribe(channel, lock)
	own := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.subs[channel] // it stays while we use it, except at the end of the Service
	if c != nil {
		if c.wakes == nil {
			c.wakes = make(map[chan struct{}]struct{})
		}
		c.wakes[own] = struct{}{}
	}
	return ready, own, func() {
		l.mu.Lock()
		if c != nil {
			delete(c.wakes, own)
		}
		l.mu.Unlock()
		l.unsubscribe(channel, true)
	}
}

// lastMessage is the number of the last message on a channel, 0 when messages may be missed. While
// it stays the same and is not 0, no message came.
func (l *subscriber) lastMessage(channel string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.subs[channel]
	if c == nil {
		return 0
	}
	select {
	case <-c.ready:
		return c.lastMessage
	default:
		return 0
	}
}

// unsubscribe ends one subscribe. With linger the channel stays subscribed for a while, since
// another user may come.
func (l *subscriber) unsubscribe(channel string, linger bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.subs[channel]
	if c == nil {
		return
	}
	c.users--
	c.since = time.Now()
	if c.users == 0 && !linger {
		c.cancel()
		delete(l.subs, channel)
	}
}

// run receives hold events and ends unused subscriptions until ctx ends.
func (l *subscriber) run(ctx context.Context) {
	_, cancel := l.from.Subscribe(l.eventChannel, true, false, l.receiveEvent)
	defer cancel()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.sweep(func(*sub) bool { return true })
			return
		case <-tick.C:
			l.sweep(func(c *sub) bool { return c.users == 0 && time.Since(c.since) > subLinger })
		}
	}
}

// sweep ends the subscriptions for which over is true.
func (l *subscriber) sweep(over func(*sub) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, c := range l.subs {
		if over(c) {
			c.cancel()
			delete(l.subs, name)
		}
	}
}

// receiveEvent handles a message on this Leash's own channel.
func (l *subscriber) receiveEvent(message []byte) {
	if message != nil {
		l.service.receiveEvent(string(message))
	}
}

// wakeWaiters wakes the heads of the channel's queues. A message that may have been missed counts
// as one. A turn message says that the lock is free and reserved for a Leash.
func (l *subscriber) wakeWaiters(channel string, turn bool) {
	l.mu.Lock()
	var locks []lockID
	if c := l.subs[channel]; c != nil {
		l.messages++
		c.lastMessage = l.messages
		locks = c.locks[:len(c.locks):len(c.locks)] // it only grows
		for wake := range c.wakes {
			select {
			case wake <- struct{}{}:
			default: // a wake-up is pending
			}
		}
	}
	l.mu.Unlock()
	for _, lock := range locks {
		if turn {
			l.service.queues.noteReserved(queueID{lock, channel})
			l.service.permitQueues.noteReserved(queueID{lock, channel})
		} else {
			l.service.queues.wake(queueID{lock, channel})
			l.service.permitQueues.wake(queueID{lock, channel})
		}
	}
}
