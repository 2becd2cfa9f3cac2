// Package pubsub is the one subscriber of Leash: however many clients listen to
// a channel, Redis has one subscription of each user who may.
//
// An Exchange has a hub for each user. A hub has a line, a connection of its
// own, to each node it needs: plain channels and patterns on one home node, the
// same for all users, what can bring keyspace events on every master as well,
// sharded channels on the owner of their slot. Clients come as Listeners. A
// Listener's subscription is always asked of Redis, as its user, so Redis's ACLs
// decide; Redis counts it once. The hub's keeper moves subscriptions when nodes
// come and go.
//
// Concurrency: everything is guarded by Exchange.mu, which is never held across
// I/O. Lines have a goroutine that writes and one that reads; the one that
// reads hands messages out. All goroutines belong to the Upstream.
//
// What is not promised: while a node is lost or a slot moves, messages are lost,
// as they are for any subscriber of Redis that has to connect again. A message
// that a client PUBLISHes to a channel of keyspace events reaches, in a cluster,
// its subscribers once a master.
package pubsub

import (
	"log/slog"
	"sync"

	"leash/proxy/upstream"
)

// Exchange is all that Leash is subscribed to. Safe for concurrent use.
type Exchange struct {
	up    *upstream.Upstream
	log   *slog.Logger
	fleet *fleet

	// mu guards the field below and all hubs, lines and entries. Never held
	// across I/O. It is taken before a session's mutex.
	mu   sync.Mutex
	hubs map[string]*hub // by user
}

// New makes an Exchange without subscriptions; it starts nothing.
func New(up *upstream.Upstream, log *slog.Logger) *Exchange {
	return &Exchange{up: up, log: log, fleet: newFleet(), hubs: make(map[string]*hub)}
}

// Stats are gauges.
type Stats struct {
	Listeners     int // clients' subscriptions
	Subscriptions int // at Redis
	Connections   int // to Redis
}

// Stats counts what there is.
func (x *Exchange) Stats() (s Stats) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range x.hubs {
		for _, entries := range h.entries {
			for _, e := range entries {
				s.Listeners += e.clients
			}
		}
		for _, l := range h.lines {
			s.Connections++
			s.Subscriptions += l.subscriptionsLocked()
		}
	}
	return s
}

// hubLocked returns the hub of a user, which ends when nothing is wanted of it.
func (x *Exchange) hubLocked(user string) *hub {
	h := x.hubs[user]
	if h == nil {
		h = newHub(x, user)
		x.hubs[user] = h
		x.up.Join(h.lane)
		h.topology = x.up.Topology()
		if !x.up.Go("subscriptions", h.keep) {
			h.over = true
		}
	}
	return h
}
