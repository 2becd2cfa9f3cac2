package pubsub

import (
	"context"
	"iter"
	"maps"
	"slices"

	"leash/proxy/links"
)

// Client is a session that receives messages. Its methods are called from any goroutine, with a
// mutex held. They must not block and must not call this package.
type Client interface {
	// Message gives the client a RESP2 frame, which is valid only during the call. For RESP3, its
	// first byte becomes '>'. A non-nil Flusher is flushed afterwards.
	Message(frame []byte) links.Flusher
	// Close ends the client, because Redis no longer lets its user subscribe.
	Close(reason string)
}

// Listener holds the subscriptions of one client. Only one goroutine may call its methods at a
// time.
type Listener struct {
	x      *Exchange
	client Client

	names [kinds]map[string]*entry // guarded by Exchange.mu; nil before the first of a kind
}

var _ receiver = (*Listener)(nil)

// Listener makes a Listener without subscriptions.
func (x *Exchange) Listener(c Client) *Listener { return &Listener{x: x, client: c} }

// Count returns the number for a confirmation. Channels and patterns are counted together, sharded
// channels separately.
func (l *Listener) Count(kind Kind) int {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	return l.countLocked(kind)
}

// Tally returns how many subscriptions of each kind there are.
func (l *Listener) Tally() (channels, patterns, shards int) {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	return len(l.names[Channel]), len(l.names[Pattern]), len(l.names[Shard])
}

// Names returns the subscriptions of a kind, in no particular order.
func (l *Listener) Names(kind Kind) []string {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	return slices.Collect(maps.Keys(l.names[kind]))
}

// Subscribe subscribes the user to all names, or to none. If Redis refuses, refusal is its error.
// Subscribe blocks until Redis has answered. After it has returned, each message goes to the
// client. counts are the numbers for the confirmations. The error is ErrUnreachable,
// dial.ErrRefused, or that of ctx.
func (l *Listener) Subscribe(ctx context.Context, user string, kind Kind, names []string) (counts []int,
	refusal []byte, err error) {
	x := l.x
	x.mu.Lock()
	h := x.hubLocked(user)
	entries := make([]*entry, len(names))
	for i, name := range names {
		entries[i] = h.entryLocked(kind, name)
		entries[i].wanted++
	}
	x.mu.Unlock()
	refusal, err = h.ask(ctx, kind, names)
	x.mu.Lock()
	defer x.mu.Unlock()
	if l.names[kind] == nil {
		l.names[kind] = make(map[string]*entry)
	}
	for _, e := range entries {
		e.wanted--
		if refusal == nil && err == nil {
			if l.names[kind][e.name] == nil {
				l.names[kind][e.name] = e
				e.addLocked(l)
			}
			counts = append(counts, l.countLocked(kind))
		}
	}
	h.pruneLocked(entries)
	return counts, refusal, err
}

// Unsubscribe ends the subscriptions to names. A name without a subscription counts as ended. When
// it returns, Redis has ended the subscriptions that no other client has, unless Redis cannot be
// reached.
func (l *Listener) Unsubscribe(ctx context.Context, kind Kind, names []string) (counts []int) {
	x := l.x
	x.mu.Lock()
	counts, requests := l.removeLocked(kind, slices.Values(names))
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, x.up.RedirectTimeout())
	defer cancel()
	_, _ = await(ctx, requests)
	return counts
}

// UnsubscribeAll ends all subscriptions. It does not wait for Redis.
func (l *Listener) UnsubscribeAll() {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	for kind := range l.names {
		l.removeLocked(Kind(kind), maps.Keys(l.names[kind]))
	}
}

// removeLocked removes subscriptions of the client. It returns the numbers for the confirmations,
// and the requests that end the subscriptions that no other client has.
func (l *Listener) removeLocked(kind Kind, names iter.Seq[string]) (counts []int, requests []*request) {
	byHub := make(map[*hub][]*entry)
	for name := range names {
		if e := l.names[kind][name]; e != nil {
			delete(l.names[kind], name)
			e.removeLocked(l)
			byHub[e.hub] = append(byHub[e.hub], e)
		}
		counts = append(counts, l.countLocked(kind))
	}
	for h, entries := range byHub {
		requests = append(requests, h.pruneLocked(entries)...)
	}
	return counts, requests
}

// countLocked is Count for a caller that holds Exchange.mu.
func (l *Listener) countLocked(kind Kind) int {
	if kind == Shard {
		return len(l.names[Shard])
	}
	return len(l.names[Channel]) + len(l.names[Pattern])
}

func (l *Listener) message(f *frame) links.Flusher { return l.client.Message(f.raw) }

func (l *Listener) confirmed(bool) links.Flusher { return nil }

// refused closes the client. The end of its session removes the listener.
func (l *Listener) refused(reason string) { l.client.Close(reason) }

func (l *Listener) isClient() bool { return true }
