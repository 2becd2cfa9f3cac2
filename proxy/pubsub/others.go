package pubsub

import (
	"context"

	"leash/proxy/links"
)

// Others is what the other Leashes of the same Redis have reported about names.
type Others map[string]*Other

// Other is the sum of the reports about one name.
type Other struct {
	Clients int            // their subscribed clients
	held    map[string]int // their subscriptions at masters, by nodeName
}

// Clients returns how many clients of the other Leashes are subscribed to a name.
func (o Others) Clients(name string) int {
	if other := o[name]; other != nil {
		return other.Clients
	}
	return 0
}

// Held returns how many subscriptions the other Leashes have to a name, over all masters.
func (o Others) Held(name string) (n int) {
	if other := o[name]; other != nil {
		for _, held := range other.held {
			n += held
		}
	}
	return n
}

// HeldAt returns the names that other Leashes are subscribed to at a node.
func (o Others) HeldAt(x *Exchange, n *links.Node) map[string]bool {
	names := make(map[string]bool)
	for name, other := range o {
		if other.held[x.nodeName(n)] > 0 {
			names[name] = true
		}
	}
	return names
}

// Others asks the other Leashes about names. With nil names it asks about all names that match a
// pattern. It blocks until all have answered, at most 100 ms. It leaves out a Leash that has not
// answered, and logs that once a minute.
func (x *Exchange) Others(ctx context.Context, kind Kind, names []string, pattern string) Others {
	others := make(Others)
	q, number := x.fleet.ask()
	if q == nil {
		return others
	}
	m := fleetMessage{What: fleetAsk, Number: number, Kind: kind, Pattern: []byte(pattern)}
	for _, name := range names {
		m.Names = append(m.Names, []byte(name))
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if x.send(ctx, m) {
		select {
		case <-q.done:
		case <-ctx.Done():
		}
	}
	for _, e := range x.fleet.end(q, number, x.log) {
		other := others[string(e.Name)]
		if other == nil {
			other = &Other{held: make(map[string]int)}
			others[string(e.Name)] = other
		}
		other.Clients += max(e.Clients, 0)
		for node, n := range e.Held {
			other.held[node] += max(n, 0)
		}
	}
	return others
}

// nodeName is the name of a node in messages between Leashes. It is empty for a single Redis, which
// may have many addresses.
func (x *Exchange) nodeName(n *links.Node) string {
	if !x.up.Topology().Cluster() {
		return ""
	}
	return n.Addr
}

// report answers a question of another Leash. A name that only Leash itself is subscribed to has no
// clients.
func (x *Exchange) report(m fleetMessage) (entries []otherNameReport) {
	names := make(map[string]bool)
	for _, name := range m.Names {
		names[string(name)] = true
	}
	masters := x.up.Topology().Masters()
	x.mu.Lock()
	defer x.mu.Unlock()
	found := make(map[string]*otherNameReport)
	entry := func(name string) *otherNameReport {
		if len(m.Names) > 0 && !names[name] || len(m.Names) == 0 && !Match(string(m.Pattern), name) {
			return nil
		}
		if found[name] == nil {
			found[name] = &otherNameReport{Name: []byte(name), Held: make(map[string]int)}
		}
		return found[name]
	}
	for _, h := range x.hubs {
		for name, e := range h.entries[m.Kind] {
			if t := entry(name); t != nil {
				t.Clients += e.clients
			}
		}
		for _, n := range masters {
			l := h.lines[n]
			if l == nil {
				continue
			}
			for name, st := range l.state[m.Kind] {
				if !st.held() {
					continue
				}
				if t := entry(name); t != nil {
					t.Held[x.nodeName(n)]++
				}
			}
		}
	}
	for _, t := range found {
		entries = append(entries, *t)
	}
	return entries
}
