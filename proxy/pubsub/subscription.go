package pubsub

import (
	"bytes"
	"slices"

	"leash/proxy/links"
)

// subscription is a subscription of Leash itself to a channel.
type subscription struct {
	x       *Exchange
	deliver func(message []byte)
	ready   chan struct{}
	entries []*entry
	isReady bool // ready is closed
}

var _ receiver = (*subscription)(nil)

// Subscribe subscribes Leash itself to a channel, as Leash's own user. It uses SUBSCRIBE if plain
// is set, and SSUBSCRIBE if sharded is set and Redis knows it. It does not block. ready is closed
// when no later message can be missed. deliver is called with each message, and with nil when
// messages may have been missed. deliver must not block. cancel ends the subscription.
func (x *Exchange) Subscribe(channel string, plain, sharded bool,
	deliver func(message []byte)) (ready <-chan struct{}, cancel func()) {
	r := &subscription{x: x, deliver: deliver, ready: make(chan struct{})}
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.hubLocked(x.up.Dialer.ServiceLane().User)
	var wanted []Kind
	if plain {
		wanted = append(wanted, Channel)
	}
	if sharded && x.up.HasShardedChannels() {
		wanted = append(wanted, Shard)
	}
	for _, kind := range wanted {
		e := h.entryLocked(kind, channel)
		e.addLocked(r)
		r.entries = append(r.entries, e)
	}
	r.confirmed(false)
	h.recheckLocked()
	return r.ready, r.cancel
}

func (r *subscription) cancel() {
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	for _, e := range r.entries {
		e.removeLocked(r)
	}
	if len(r.entries) > 0 {
		r.entries[0].hub.pruneLocked(r.entries)
	}
	r.entries = nil
}

func (r *subscription) message(f *frame) links.Flusher {
	payload := bytes.Clone(f.payload)
	return unlocked(func() { r.deliver(payload) })
}

// confirmed closes ready when Redis has all subscriptions. After that, a new confirmation means
// that messages may have been missed.
func (r *subscription) confirmed(interrupted bool) links.Flusher {
	if r.isReady && interrupted {
		return unlocked(func() { r.deliver(nil) })
	}
	if !r.isReady && !slices.ContainsFunc(r.entries, func(e *entry) bool { return e.source == nil }) {
		r.isReady = true
		close(r.ready)
	}
	return nil
}

// refused does nothing. The keeper tries the subscription again.
func (r *subscription) refused(string) {}

func (r *subscription) isClient() bool { return false }
