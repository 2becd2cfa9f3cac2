// Package pubsub shares subscriptions. Any number of clients may be subscribed to a channel. Leash
// has one subscription in Redis for all clients of the same user.
//
// # Types
//
// An [Exchange] has a hub for each user. A hub has lines: links of its own to the nodes that it
// needs. Clients come as [Listener]s. The hub's keeper moves subscriptions when nodes come and
// go.
//
//	plain channels and patterns                on one home node, the same for all users
//	channels and patterns of keyspace events   on every master
//	sharded channels                           on the node that owns their slot
//
// Leash subscribes in Redis as the client's user, so Redis's ACLs decide. Redis counts each
// subscription once.
//
// # Concurrency
//
// Exchange.mu guards everything. It is never held during I/O. The goroutine of a link that reads
// hands messages out. All goroutines belong to the Upstream.
//
// # Not promised
//
// Messages are lost while a node is lost or a slot moves, as for any subscriber of Redis that has
// to connect again. In a cluster, a message that a client publishes to a channel of keyspace events
// reaches its subscribers once for each master.
package pubsub

import (
	"log/slog"
	"sync"

	"leash/proxy/upstream"
)

// Exchange holds all subscriptions of this Leash. Safe for concurrent use.
type Exchange struct {
	up    *upstream.Upstream
	log   *slog.Logger
	fleet *fleet

	// mu guards the field below and all hubs, lines and entries. It is never held across I/O. It is
	// locked before a session's mutex and before those of links.
	mu   sync.Mutex
	hubs map[string]*hub // by user
}

// New makes an Exchange without subscriptions. It starts nothing.
func New(up *upstream.Upstream, log *slog.Logger) *Exchange {
	return &Exchange{up: up, log: log, fleet: newFleet(), hubs: make(map[string]*hub)}
}

// Stats are gauges.
type Stats struct {
	Listeners     int // clients' subscriptions
	Subscriptions int // at Redis
	Connections   int // to Redis
}

// Stats returns the current gauges.
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

// hubLocked returns the hub of a user. The hub ends when nothing is subscribed through it.
func (x *Exchange) hubLocked(user string) *hub {
	h := x.hubs[user]
	if h == nil {
		h = newHub(x, user)
		x.hubs[user] = h
		x.up.Nodes.Join(h.lane)
		h.topology = x.up.Topology()
		x.up.Nodes.Go("subscriptions", h.keep)
	}
	return h
}
