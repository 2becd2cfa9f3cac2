package pubsub

import (
	"leash/proxy/links"
)

// Listens reports whether Leash is subscribed to a channel in any way. If not, a message on the
// channel concerns only Redis. Listens does not allocate.
func (x *Exchange) Listens(kind Kind, channel []byte) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range x.hubs {
		if h.entries[kind][string(channel)] != nil || kind == Channel && len(h.entries[Pattern]) > 0 {
			return true
		}
	}
	return false
}

// Receivers returns how many of the receivers that a node counts for a message are Leash itself,
// and how many clients of Leash get the message.
func (x *Exchange) Receivers(n *links.Node, kind Kind, channel string) (ours, clients int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range x.hubs {
		clients += h.clientsLocked(kind, channel)
		l := h.lines[n]
		if l != nil && l.state[kind][channel].held() {
			ours++
		}
		if kind == Shard {
			continue
		}
		for pattern, e := range h.entries[Pattern] {
			if Match(pattern, channel) {
				clients += e.clients
			}
		}
		if l == nil {
			continue
		}
		for pattern, st := range l.state[Pattern] {
			if st.held() && Match(pattern, channel) {
				ours++
			}
		}
	}
	return ours, clients
}

// Subscribers returns how many of the subscribers that a node counts for a channel are Leash
// itself.
func (x *Exchange) Subscribers(n *links.Node, kind Kind, channel string) (ours int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range x.hubs {
		if l := h.lines[n]; l != nil && l.state[kind][channel].held() {
			ours++
		}
	}
	return ours
}

// Clients returns how many clients of Leash are subscribed to a channel.
func (x *Exchange) Clients(kind Kind, channel string) (clients int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range x.hubs {
		clients += h.clientsLocked(kind, channel)
	}
	return clients
}

func (h *hub) clientsLocked(kind Kind, name string) int {
	if e := h.entries[kind][name]; e != nil {
		return e.clients
	}
	return 0
}

// Active returns the names that at least one client of Leash is subscribed to.
func (x *Exchange) Active(kind Kind) map[string]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	active := make(map[string]bool)
	for _, h := range x.hubs {
		for name, e := range h.entries[kind] {
			if e.clients > 0 {
				active[name] = true
			}
		}
	}
	return active
}

// Held returns the names that Leash has subscribed to at a node.
func (x *Exchange) Held(n *links.Node, kind Kind) map[string]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	held := make(map[string]bool)
	for _, h := range x.hubs {
		if l := h.lines[n]; l != nil {
			for name, st := range l.state[kind] {
				if st.held() {
					held[name] = true
				}
			}
		}
	}
	return held
}

func (l *line) subscriptionsLocked() (n int) {
	for kind := range l.state {
		n += len(l.state[kind])
	}
	return n
}

func (st state) held() bool { return st == joined || st == leaving }
