package pubsub

import (
	"errors"
	"time"

	"leash/proxy/dial"
	"leash/proxy/links"
)

// errCannotUnsubscribe ends a line on which Redis does not let the user unsubscribe. The unwanted
// subscriptions end with the line (see keepsLocked).
var errCannotUnsubscribe = errors.New("pubsub: redis does not let the user unsubscribe")

// maxUnwanted is how many unwanted subscriptions a line may keep that others need.
const maxUnwanted = 1000

// pingEvery is how often a line sends a PING, to notice a dead node.
const pingEvery = time.Second

// line is the link to a node for the subscriptions of a hub. It is in RESP2, which every server
// supports, or in RESP3 if the password may change (Upstream.SubscriberLane). When the link ends,
// the hub makes a new line. Exchange.mu guards the fields without another comment.
type line struct {
	hub  *hub        // immutable
	node *links.Node // immutable
	link *links.Link // immutable

	receivers []receiver      // receivers of the current message; used by the reader only
	touched   []links.Flusher // what to flush after this read; used by the reader only

	began  time.Time               // immutable
	pinged time.Time               // when checkLocked last sent a PING
	pings  int                     // PINGs without an answer
	state  [kinds]map[string]state // by name; a name that Redis does not have is missing
	idle   time.Time               // when the line became unused; zero: it is in use
	stuck  int                     // subscriptions that Redis did not let the user end
	over   bool
	master bool // the node is a master, so its keyspace events count
}

// state is the known state of a subscription on a line.
type state uint8

const (
	none    state = iota
	asked         // requested
	joined        // Redis has it
	leaving       // Redis has it, and its end was requested
)

// request is one command on a line, and the sink of its call.
type request struct {
	line    *line
	ping    bool
	join    bool
	kind    Kind
	names   []string
	asked   time.Time
	had     int            // names that Redis confirmed
	refusal []byte         // Redis's error reply
	lost    error          // why there was no reply
	done    chan struct{}  // closed at the end
	after   func(*request) // called at the end with mu held; may be nil
}

func newLine(h *hub, n *links.Node) *line {
	l := &line{hub: h, node: n, began: time.Now(), master: h.isMasterLocked(n)}
	for kind := range l.state {
		l.state[kind] = make(map[string]state)
	}
	l.link = n.Listen(h.lane, l)
	return l
}

func (l *line) joinLocked(kind Kind, names []string, after func(*request)) *request {
	for _, name := range names {
		if l.state[kind][name] != joined {
			l.state[kind][name] = asked
		}
	}
	return l.submitLocked(&request{join: true, kind: kind, names: names, after: after})
}

func (l *line) leaveLocked(kind Kind, names []string) *request {
	for _, name := range names {
		l.state[kind][name] = leaving
	}
	return l.submitLocked(&request{kind: kind, names: names})
}

func (l *line) submitLocked(r *request) *request {
	r.line, r.asked, r.done = l, time.Now(), make(chan struct{})
	command := dial.PingRequest
	if r.ping {
		l.pings++
	} else {
		command = r.kind.command(r.join, r.names)
	}
	if l.over {
		l.finishLocked(r, links.ErrClosed)
		return r
	}
	l.link.Submit(&links.Request{Command: command, Sink: r})
	return r
}

func (l *line) finishLocked(r *request, lost error) {
	if r.ping {
		l.pings--
	}
	r.lost = lost
	close(r.done)
	if r.after != nil {
		r.after(r)
	}
}

// Reply implements links.Sink. It is not called, because Receive takes the answer.
func (r *request) Reply([]byte, bool) links.Flusher { return nil }

// Lost implements links.Sink.
func (r *request) Lost(_ bool, cause error) {
	mu := &r.line.hub.x.mu
	mu.Lock()
	defer mu.Unlock()
	r.line.finishLocked(r, cause)
}

// keepsLocked reports whether the line stays although Redis refused to end n subscriptions on it.
// Nobody gets the messages of an unwanted one, but clients that need the line would miss messages
// until there is a new one.
func (l *line) keepsLocked(n int) bool {
	if l.stuck += n; l.stuck > maxUnwanted {
		return false
	}
	for kind := range l.state {
		for name := range l.state[kind] {
			if e := l.hub.entries[kind][name]; e != nil && (e.source == l || e.source == nil) {
				return true
			}
		}
	}
	return false
}

// checkLocked sends a PING once a second, and ends a line that is silent for too long.
func (l *line) checkLocked(now time.Time) {
	if now.Sub(l.pinged) < pingEvery {
		return
	}
	l.pinged = now
	if l.hub.lane.RESP3 { // Redis takes no AUTH from a subscriber in RESP2
		l.link.Steady(true) // sends AUTH if the password has changed
	}
	if l.pings == 0 {
		l.submitLocked(&request{ping: true})
	} else {
		l.link.BreakIfSilent()
	}
}

// endLocked ends the line. The hub submits no more requests to it.
func (l *line) endLocked() {
	l.link.Break()
	l.hub.forgetLocked(l)
}

// Ended implements links.Receiver. It removes the line from the hub.
func (l *line) Ended(cause error) {
	h, x := l.hub, l.hub.x
	if !errors.Is(cause, links.ErrClosed) && !errors.Is(cause, dial.ErrRefused) {
		x.log.Debug("subscriber's connection ended", "node", l.node.Addr, "err", cause)
		x.up.Refresh()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	l.over = true
	h.lostLocked(l)
	if errors.Is(cause, dial.ErrRefused) {
		h.warnLocked(&h.badCredentials, "redis refuses a subscriber's password")
		for _, entries := range h.entries {
			for _, e := range entries {
				h.refuseLocked(e, "credential refused")
			}
		}
	}
}
