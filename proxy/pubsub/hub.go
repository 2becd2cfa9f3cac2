package pubsub

import (
	"time"

	"leash/internal/limits"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/slots"
	"leash/proxy/topology"
)

// hub holds the subscriptions of one user. Exchange.mu guards its fields.
type hub struct {
	x    *Exchange     // immutable
	lane dial.Lane     // immutable
	wake chan struct{} // size 1: the keeper has something to do

	entries  [kinds]map[string]*entry
	lines    map[*links.Node]*line
	home     *line // for names that any node serves; nil: not chosen
	topology *topology.Snapshot
	dirty    bool // a node may have too few or too many subscriptions
	// when Leash tries its own refused subscriptions again; zero: none was refused
	later    time.Time
	backoff  map[*links.Node]*backoff
	warnings []func() // the keeper logs them without mu

	refusals, badCredentials limits.Interval // between warnings
}

// entry is a name with its receivers. It exists while a receiver is subscribed or subscribes.
type entry struct {
	hub       *hub
	kind      Kind
	name      string
	source    *line       // the line whose messages count, except for keyspace events; nil: none
	node      *links.Node // node of the last source; nil: there was none
	history   history     // messages that were handed out
	repeats   repeats     // messages that source may bring again
	wanted    int         // Subscribe calls in progress
	notBefore time.Time   // no attempt before then, because Redis refused the last one
	clients   int         // clients among the receivers
	receivers map[receiver]struct{}
}

// receiver takes messages. Its methods are called with Exchange.mu held and must not block.
type receiver interface {
	message(f *frame) links.Flusher
	// confirmed means that no message can be missed from now on. interrupted means that some may
	// have been missed before. What it returns is flushed without mu.
	confirmed(interrupted bool) links.Flusher
	// refused means that Redis no longer lets the user subscribe.
	refused(reason string)
	isClient() bool
}

// unlocked is a function that is called without mu.
type unlocked func()

// Flush implements links.Flusher.
func (f unlocked) Flush() { f() }

func newHub(x *Exchange, user string) *hub {
	h := &hub{
		x: x, lane: x.up.SubscriberLane(user), wake: make(chan struct{}, 1),
		lines: make(map[*links.Node]*line), backoff: make(map[*links.Node]*backoff),
	}
	for kind := range h.entries {
		h.entries[kind] = make(map[string]*entry)
	}
	return h
}

// backoff decides when a node may be dialled again.
type backoff struct {
	until time.Time
	next  time.Duration
}

const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// entryLocked returns the entry for a name, and makes it if there is none.
func (h *hub) entryLocked(kind Kind, name string) *entry {
	e := h.entries[kind][name]
	if e == nil {
		e = &entry{hub: h, kind: kind, name: name, receivers: make(map[receiver]struct{})}
		h.entries[kind][name] = e
	}
	return e
}

func (e *entry) addLocked(r receiver) {
	if _, there := e.receivers[r]; there {
		return
	}
	e.receivers[r] = struct{}{}
	if r.isClient() {
		e.clients++
	}
}

func (e *entry) removeLocked(r receiver) {
	if _, there := e.receivers[r]; !there {
		return
	}
	delete(e.receivers, r)
	if r.isClient() {
		e.clients--
	}
}

// pruneLocked removes those of the given entries that have no receivers and no Subscribe call in
// progress. It returns the requests that end their subscriptions in Redis.
func (h *hub) pruneLocked(entries []*entry) []*request {
	leaving := make(changes)
	for _, e := range entries {
		if len(e.receivers) > 0 || e.wanted > 0 || h.entries[e.kind][e.name] != e {
			continue
		}
		delete(h.entries[e.kind], e.name)
		for _, l := range h.lines {
			if st := l.state[e.kind][e.name]; st == asked || st == joined {
				leaving.add(l, e.kind, e.name)
			}
		}
	}
	return leaving.leaveLocked()
}

// targetsLocked returns the lines that must have the subscription of an entry. complete is false if
// one of them is not available now. The messages of the first line count.
func (h *hub) targetsLocked(kind Kind, name string) (lines []*line, complete bool) {
	if kind == Shard {
		l := h.lineLocked(h.topology.Node(slots.Of([]byte(name))))
		if l == nil {
			return nil, false
		}
		return []*line{l}, true
	}
	home := h.homeLocked()
	if home == nil {
		return nil, false
	}
	lines, complete = append(lines, home), true
	if h.topology.Cluster() && bringsKeyspace(kind, name) {
		for _, n := range h.topology.Masters() {
			switch l := h.lineLocked(n); {
			case l == nil:
				complete = false
			case l != home:
				lines = append(lines, l)
			}
		}
	}
	return lines, complete
}

// lineLocked returns the line to a node, and makes it if there is none. It returns nil while the
// node must not be dialled.
func (h *hub) lineLocked(n *links.Node) *line {
	if n == nil {
		return nil
	}
	if l := h.lines[n]; l != nil {
		return l
	}
	if b := h.backoff[n]; b != nil && time.Now().Before(b.until) {
		return nil
	}
	l := newLine(h, n)
	if l.link.Ended() { // Leash stops
		return nil
	}
	h.lines[n] = l
	return l
}

// homeLocked returns the line to the home node, and chooses a home if there is none.
func (h *hub) homeLocked() *line {
	if h.home == nil {
		h.home = h.newHomeLocked(nil)
	}
	return h.home
}

// newHomeLocked returns a line to a master that answers and is not the given node. Without a given
// node, it falls back to a master that does not answer. It returns nil if none can be dialled now.
//
// All users have the same home if possible. The nodes of a cluster get a message one after the
// other. If a client leaves a channel and joins it as another user, a different home could bring it
// the same message again.
func (h *hub) newHomeLocked(not *links.Node) *line {
	var candidates []*links.Node
	for _, other := range h.x.hubs {
		if other.home != nil && h.x.up.ReceivesMessages(other.home.node) {
			candidates = append(candidates, other.home.node)
		}
	}
	candidates = append(append(candidates, h.x.up.AnyNode()), h.topology.Masters()...)
	for _, n := range candidates {
		if n == nil || n == not || n.Unresponsive() {
			continue
		}
		if l := h.lineLocked(n); l != nil {
			return l
		}
	}
	if not != nil {
		return nil
	}
	return h.lineLocked(candidates[0]) // no master answers
}

// forgetLocked makes the hub use a line no more.
func (h *hub) forgetLocked(l *line) {
	if h.lines[l.node] == l {
		delete(h.lines, l.node)
	}
	if h.home == l {
		h.home = nil
	}
}

func (h *hub) lostLocked(l *line) {
	h.forgetLocked(l)
	for kind := range l.state {
		for name := range l.state[kind] {
			if e := h.entries[kind][name]; e != nil && e.source == l {
				e.source = nil
			}
		}
	}
	b := h.backoff[l.node]
	if b == nil || time.Since(l.began) > maxBackoff {
		b = &backoff{next: minBackoff}
		h.backoff[l.node] = b
	}
	b.until = time.Now().Add(b.next)
	b.next = min(2*b.next, maxBackoff)
	h.recheckLocked()
}

func (h *hub) recheckLocked() {
	h.dirty = true
	links.Signal(h.wake)
}

// refuseLocked tells the receivers of e that they can no longer be subscribed.
func (h *hub) refuseLocked(e *entry, reason string) {
	for r := range e.receivers {
		r.refused(reason)
	}
	h.later = time.Now().Add(retryRefusedAfter)
	e.notBefore = h.later
}

// warnEvery is the time between two warnings of a kind.
const warnEvery = time.Minute

// warnLocked logs a warning of a kind about the hub's user. The keeper does that.
func (h *hub) warnLocked(kind *limits.Interval, message string, attrs ...any) {
	if kind.Due(time.Now(), warnEvery) {
		attrs = append([]any{"user", h.lane.ACLUser()}, attrs...)
		h.warnings = append(h.warnings, func() { h.x.log.Warn(message, attrs...) })
		links.Signal(h.wake)
	}
}
