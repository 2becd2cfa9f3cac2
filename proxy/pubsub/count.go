package pubsub

import (
	"context"

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
		for _, l := range h.lines { // some may be left that nobody wants
			if l.state[kind][string(channel)].held() || kind == Channel && len(l.state[Pattern]) > 0 {
				return true
			}
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
		if e := h.entries[kind][channel]; e != nil {
			clients += e.clients
		}
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

// Counts are what all Leashes of the same Redis have subscribed to, by name.
type Counts map[string]*NameCount

// NameCount is about one name. Leashes send it to each other.
type NameCount struct {
	Name    []byte
	Clients int            // subscribed clients; none if Leashes subscribe only for themselves
	Held    map[string]int // subscriptions of Leashes at masters, by nodeName
}

// Active returns the names that at least one client is subscribed to.
func (c Counts) Active() map[string]bool {
	active := make(map[string]bool)
	for name, one := range c {
		if one.Clients > 0 {
			active[name] = true
		}
	}
	return active
}

// Of returns how many clients are subscribed to a name, and how many subscriptions Leashes have to
// it, over all masters.
func (c Counts) Of(name string) (clients, held int) {
	one := c[name]
	if one == nil {
		return 0, 0
	}
	for _, n := range one.Held {
		held += n
	}
	return one.Clients, held
}

// HeldAt returns the names that Leashes are subscribed to at a node.
func (c Counts) HeldAt(x *Exchange, n *links.Node) map[string]bool {
	names := make(map[string]bool)
	for name, one := range c {
		if one.Held[x.nodeName(n)] > 0 {
			names[name] = true
		}
	}
	return names
}

// of returns the count of a name, and makes it if there is none.
func (c Counts) of(name string) *NameCount {
	if c[name] == nil {
		c[name] = &NameCount{Name: []byte(name), Held: make(map[string]int)}
	}
	return c[name]
}

// Count counts the subscriptions to names. With nil names it counts those to all names that match a
// pattern. It asks the other Leashes, and blocks until all have answered, at most 100 ms. It leaves
// out a Leash that has not answered, and logs that once a minute.
func (x *Exchange) Count(ctx context.Context, kind Kind, names []string, pattern string) Counts {
	m := fleetMessage{What: fleetAsk, Kind: kind, Pattern: []byte(pattern)}
	for _, name := range names {
		m.Names = append(m.Names, []byte(name))
	}
	reported := x.askFleet(ctx, m)
	counts := x.own(m)
	for _, other := range reported {
		one := counts.of(string(other.Name))
		one.Clients += max(other.Clients, 0)
		for node, n := range other.Held {
			one.Held[node] += max(n, 0)
		}
	}
	return counts
}

// nodeName is the name of a node in messages between Leashes. It is empty for a single Redis, which
// may have many addresses.
func (x *Exchange) nodeName(n *links.Node) string {
	if !x.up.Topology().Cluster() {
		return ""
	}
	return n.Addr
}

// own returns what this Leash has subscribed to of the names in a question.
func (x *Exchange) own(m fleetMessage) Counts {
	names := make(map[string]bool)
	for _, name := range m.Names {
		names[string(name)] = true
	}
	asked := func(name string) bool {
		return names[name] || len(names) == 0 && Match(string(m.Pattern), name)
	}
	counts, nodes := make(Counts), x.up.Topology().Holders()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range x.hubs {
		for name, e := range h.entries[m.Kind] {
			if asked(name) {
				counts.of(name).Clients += e.clients
			}
		}
		for _, n := range nodes {
			l := h.lines[n]
			if l == nil {
				continue
			}
			for name, st := range l.state[m.Kind] {
				if st.held() && asked(name) {
					counts.of(name).Held[x.nodeName(n)]++
				}
			}
		}
	}
	return counts
}

func (l *line) subscriptionsLocked() (n int) {
	for kind := range l.state {
		n += len(l.state[kind])
	}
	return n
}

func (st state) held() bool { return st == joined || st == leaving }
