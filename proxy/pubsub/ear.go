package pubsub

import (
	"bytes"
	"slices"

	"leash/proxy/upstream"
)

// ear is a part of Leash itself that listens to a channel.
type ear struct {
	x       *Exchange
	hear    func(message []byte)
	ready   chan struct{}
	entries []*entry
	heard   bool // ready is closed
}

var _ receiver = (*ear)(nil)

// Subscribe lets a part of Leash hear a channel, as Leash's own user: with
// plain as SUBSCRIBE has it, with sharded as SSUBSCRIBE (where Redis knows
// that). It does not block. ready is closed when no message can be missed any
// more; hear is called with each message, and with nil when some may have been
// missed since. It must not block. cancel ends it.
func (x *Exchange) Subscribe(channel string, plain, sharded bool, hear func(message []byte)) (ready <-chan struct{}, cancel func()) {
	r := &ear{x: x, hear: hear, ready: make(chan struct{})}
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.hubLocked(x.up.ServiceLane().User)
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
	h.touchLocked()
	return r.ready, r.cancel
}

func (r *ear) cancel() {
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

func (r *ear) message(f *frame) upstream.Flusher {
	return &heard{r, bytes.Clone(f.payload)}
}

// heard is a message for an ear, which hears it without Exchange.mu.
type heard struct {
	by      *ear
	message []byte
}

func (h *heard) Flush() { h.by.hear(h.message) }

// confirmed closes ready once Redis has all; later it means that messages may
// have been missed.
func (r *ear) confirmed(anew bool) func() {
	if r.heard && anew {
		return func() { r.hear(nil) }
	}
	if !r.heard && !slices.ContainsFunc(r.entries, func(e *entry) bool { return e.source == nil }) {
		r.heard = true
		close(r.ready)
	}
	return nil
}

// refused leaves it to the keeper to try again.
func (r *ear) refused(string) (then func(), gone bool) { return nil, false }

func (r *ear) isClient() bool { return false }
