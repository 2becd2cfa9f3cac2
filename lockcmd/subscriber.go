package lockcmd

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	sweepEvery = 2 * time.Second // how often channels that nobody waits for are looked for
	// how long a channel stays subscribed after its last waiter: another one may come
	subLinger = 5 * time.Second
)

// Subscriber is how a Service hears what is published; the proxy provides it (R20). It subscribes
// again by itself whatever happens to nodes and slots.
type Subscriber interface {
	// Subscribe listens to a channel, plain, sharded or both; where Redis has no sharded channels
	// it does without. It does not block. ready is closed when a message can no longer be missed.
	// hear is called with each message, and with nil when some may have been missed; it does not
	// block, and a last call of it may come after cancel, which ends the subscription.
	Subscribe(channel string, plain, sharded bool, handle func(message []byte)) (ready <-chan struct{}, cancel func())
}

// subscriber is what this Leash hears: unlocks, and what others did to its holds. It listens to a
// channel once, however many wait.
type subscriber struct {
	service      *Service
	from         Subscriber
	eventChannel string // our own channel, leash:<uuid>

	// mu guards the fields below and the subs.
	mu       sync.Mutex
	subs     map[string]*sub
	messages int64 // rises with each message and each new sub
}

// sub is a channel listened to.
type sub struct {
	locks       []lockID // whose channel it is, one in each database that anybody has listened for
	users       int
	since       time.Time // users is 0 since then
	ready       <-chan struct{}
	cancel      func()
	lastMessage int64                      // subscriber.said at its last message, or its beginning
	wakes       map[chan struct{}]struct{} // of those who look at each message
}

func newSubscriber(s *Service, from Subscriber) *subscriber {
	return &subscriber{service: s, from: from, eventChannel: "leash:" + s.uuid, subs: make(map[string]*sub)}
}

// subscribe subscribes to a channel that belongs to a key, once for all who ask. The result is closed
// when a message can no longer be missed.
func (l *subscriber) subscribe(channel string, lock lockID) (ready <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.subs[channel]
	if c == nil {
		l.messages++
		c = &sub{lastMessage: l.messages}
		l.subs[channel] = c
		plain, sharded := l.service.cfg.Publish != PublishSharded, l.service.cfg.Publish != PublishPlain
		c.ready, c.cancel = l.from.Subscribe(channel, plain, sharded, func([]byte) { l.wakeWaiters(channel) })
	}
	if !slices.Contains(c.locks, lock) {
		c.locks = append(c.locks, lock)
	}
	c.users++
	return c.ready
}

// subscribeWaiter is listen for one who looks at each message: wake has one when there were some, or some
// may have been missed. leave ends it.
func (l *subscriber) subscribeWaiter(channel string, lock lockID) (ready <-chan struct{}, wake <-chan struct{}, leave func()) {
	ready = l.subscribe(channel, lock)
	own := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.subs[channel] // it stays while we use it, or is given up with all others at the end
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

// lastMessage stands for what was heard on a channel until now; 0 when messages may be missed. As long
// as it stays the same, and is not 0, nothing was said.
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

// unsubscribe is the end of one listen. If another one may follow soon, the channel stays subscribed for
// a while.
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

// run listens to our own channel and gives up those of others that nobody waits for, until ctx
// ends.
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

// sweep ends the subscriptions for which over says so.
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

// receiveEvent takes a message on our own channel.
func (l *subscriber) receiveEvent(message []byte) {
	if message != nil {
		l.service.receiveEvent(string(message))
	}
}

// wakeWaiters lets those look who stand first where its channel is listened to. A message that may have
// been missed counts as one.
func (l *subscriber) wakeWaiters(channel string) {
	l.mu.Lock()
	var locks []lockID
	if c := l.subs[channel]; c != nil {
		l.messages++
		c.lastMessage = l.messages
		locks = c.locks[:len(c.locks):len(c.locks)] // only ever appended to
		for wake := range c.wakes {
			select {
			case wake <- struct{}{}:
			default: // it has not looked yet
			}
		}
	}
	l.mu.Unlock()
	for _, lock := range locks {
		l.service.queues.wake(queueID{lock, channel})
		l.service.permitQueues.wake(queueID{lock, channel})
	}
}
