package event

import (
	"context"
	"slices"
	"sync"
	"time"

	"leash/lockcmd/script"
)

const (
	sweepEvery = 2 * time.Second // pause between two searches for unused channels
	// how long a channel stays subscribed after its last user, since another one may come
	linger = 5 * time.Second
)

// Subscriber receives published messages; the proxy provides it (R20). It renews its subscriptions
// by itself after any change of nodes and slots.
type Subscriber interface {
	// Subscribe subscribes to a channel: plain, sharded or both. Without sharded channels in Redis
	// it ignores sharded. It does not block. ready is closed when no message can be missed any
	// more. handle gets each message, or nil when some may have been missed. handle must not block,
	// and a last call may come after cancel, which ends the subscription.
	Subscribe(channel string, plain, sharded bool, handle func(message []byte)) (ready <-chan struct{}, cancel func())
}

// Receiver is the Leash that gets the messages. Its methods do not block.
type Receiver interface {
	// Receive gets an event for this Leash.
	Receive(e Event)
	// Wake gets a message on a lock's channel, or learns that one may have been missed. reserved
	// says that the lock is free, but reserved for some Leash.
	Wake(lock script.Lock, channel string, reserved bool)
}

// Subscriptions receives wake-ups and events for one Leash. It subscribes to the channel of a lock
// once for all users. It is safe for concurrent use once its exported fields are set.
type Subscriptions struct {
	From           Subscriber
	To             Receiver
	Own            string // the channel of this Leash's events
	Plain, Sharded bool   // the ways in which locks' messages are published

	// mu guards the fields below and the subscriptions.
	mu       sync.Mutex
	channels map[string]*subscription
	messages int64 // grows with each message and each new subscription
}

// subscription is one subscribed channel.
type subscription struct {
	locks       []script.Lock // locks of the channel, one in each database
	users       int
	since       time.Time // when users became 0
	ready       <-chan struct{}
	cancel      func()
	lastMessage int64                      // Subscriptions.messages at its last message or its start
	wakes       map[chan struct{}]struct{} // users that get a wake-up for each message
}

// Subscribe subscribes to the channel of a lock. ready is closed when no message can be missed any
// more. Call Unsubscribe at the end.
func (l *Subscriptions) Subscribe(channel string, lock script.Lock) (ready <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.channels[channel]
	if c == nil {
		l.messages++
		c = &subscription{lastMessage: l.messages}
		if l.channels == nil {
			l.channels = make(map[string]*subscription)
		}
		l.channels[channel] = c
		handle := func(message []byte) { l.wake(channel, isTurnMessage(message)) }
		c.ready, c.cancel = l.From.Subscribe(channel, l.Plain, l.Sharded, handle)
	}
	if !slices.Contains(c.locks, lock) {
		c.locks = append(c.locks, lock)
	}
	c.users++
	return c.ready
}

// subscribeWaiter is Subscribe for a user that wants a wake-up when messages came or may have been
// missed. Call leave at the end.
func (l *Subscriptions) subscribeWaiter(channel string, lock script.Lock) (ready, wake <-chan struct{}, leave func()) {
	ready = l.Subscribe(channel, lock)
	own := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.channels[channel] // it stays while we use it, except at the end of Run
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
		l.Unsubscribe(channel, true)
	}
}

// LastMessage is the number of the last message on a channel, 0 when messages may be missed. While
// it stays the same and is not 0, no message came.
func (l *Subscriptions) LastMessage(channel string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.channels[channel]
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

// Unsubscribe ends one Subscribe. With lingers the channel stays subscribed for a while, since
// another user may come.
func (l *Subscriptions) Unsubscribe(channel string, lingers bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.channels[channel]
	if c == nil {
		return
	}
	c.users--
	c.since = time.Now()
	if c.users == 0 && !lingers {
		c.cancel()
		delete(l.channels, channel)
	}
}

// Channels is the number of subscribed channels of locks.
func (l *Subscriptions) Channels() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.channels)
}

// Run receives events and ends unused subscriptions until ctx ends.
func (l *Subscriptions) Run(ctx context.Context) {
	_, cancel := l.From.Subscribe(l.Own, true, false, func(message []byte) {
		if e, ok := Parse(string(message)); ok {
			l.To.Receive(e)
		}
	})
	defer cancel()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.sweep(func(*subscription) bool { return true })
			return
		case <-tick.C:
			l.sweep(func(c *subscription) bool { return c.users == 0 && time.Since(c.since) > linger })
		}
	}
}

// sweep ends the subscriptions for which over is true.
func (l *Subscriptions) sweep(over func(*subscription) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, c := range l.channels {
		if over(c) {
			c.cancel()
			delete(l.channels, name)
		}
	}
}

// WakeChannel wakes the users of a channel, as a message does. It does not block.
func (l *Subscriptions) WakeChannel(channel string) { l.wake(channel, false) }

// wake wakes the users of a channel. A message that may have been missed counts as one.
func (l *Subscriptions) wake(channel string, reserved bool) {
	l.mu.Lock()
	var locks []script.Lock
	if c := l.channels[channel]; c != nil {
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
		l.To.Wake(lock, channel, reserved)
	}
}
