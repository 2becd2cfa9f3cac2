package pubsub

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/resp"
)

// Reasons why a line ends.
var (
	errSilent  = errors.New("pubsub: node is silent")
	errUnasked = errors.New("pubsub: a reply that nobody asked for")
	// errCannotUnsubscribe ends a line on which Redis does not let the user unsubscribe. The
	// unwanted subscription ends with the line.
	errCannotUnsubscribe = errors.New("pubsub: redis does not let the user unsubscribe")
	errUnused            = errors.New("pubsub: connection not needed any more")
)

// pingEvery is how often a line sends a PING, to notice a dead node.
const pingEvery = time.Second

// line is one connection to a node. It is in RESP2, which every server supports, or in RESP3 if the
// password may change (Upstream.SubscriberLane). One goroutine writes (run) and another reads
// (reader). When the connection breaks, the line ends, and the hub makes a
// new one. Exchange.mu guards the fields without another comment.
type line struct {
	hub  *hub            // immutable
	node *links.Node     // immutable
	wake chan struct{}   // size 1: there is something to write
	ctx  context.Context // done when the line must end
	stop context.CancelFunc

	heard atomic.Int64 // when Redis last sent something: nanoseconds since began

	receivers []receiver      // receivers of the current message; used by the reader only
	touched   []links.Flusher // what to flush after this read; used by the reader only
	readAt    time.Time       // when the reader last read; used by the reader only

	login   dial.Login
	addr    net.Addr  // of the node; set before the first command is written
	began   time.Time // immutable
	out     []byte    // commands to write
	waiting []*request
	pings   int                     // of waiting
	state   [kinds]map[string]state // by name; a name that Redis does not have is missing
	idle    time.Time               // when the line became unused; zero: it is in use
	over    bool
	master  bool // the node is a master, so its keyspace events count
}

// state is the known state of a subscription on a line.
type state uint8

const (
	none    state = iota
	asked         // requested
	joined        // Redis has it
	leaving       // Redis has it, and its end was requested
)

// request is one command on a line. Replies come in the order of the requests.
type request struct {
	line    *line
	ping    bool
	login   []byte // an AUTH; nil: it is another command
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
	l := &line{hub: h, node: n, wake: make(chan struct{}, 1), began: time.Now(), master: h.isMasterLocked(n)}
	for kind := range l.state {
		l.state[kind] = make(map[string]state)
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
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
	if l.over {
		l.finishLocked(r, errUnused)
		return r
	}
	switch {
	case r.login != nil:
		l.out = append(l.out, r.login...)
	case r.ping:
		// not an inline command, because the embedded Redis knows none
		l.out = resp.AppendCommand(l.out, "PING")
		l.pings++
	default:
		l.out = r.kind.command(l.out, r.join, r.names)
	}
	l.waiting = append(l.waiting, r)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return r
}

func (l *line) finishLocked(r *request, lost error) {
	r.lost = lost
	close(r.done)
	if r.after != nil {
		r.after(r)
	}
}

// endLocked ends the line. The hub submits no more requests to it.
func (l *line) endLocked() {
	l.stop()
	if l.hub.lines[l.node] == l {
		delete(l.hub.lines, l.node)
	}
	if l.hub.home == l {
		l.hub.home = nil
	}
}

// run dials and then writes requests until the connection ends.
func (l *line) run(ctx context.Context) {
	log := l.hub.x.log
	defer l.stop()
	defer context.AfterFunc(ctx, guard.Func(log, "end of a subscriber", l.stop))()
	wasUp := false
	err := guard.Call(log, "subscriber", func() error {
		login := l.hub.x.up.Dialer.NewLogin()
		conn, err := l.node.Dial(l.ctx, l.hub.lane)
		if err != nil {
			return err
		}
		wasUp = true
		l.hub.x.mu.Lock()
		l.login, l.addr = login, conn.RemoteAddr()
		l.hub.x.mu.Unlock()
		return l.serve(conn)
	}, "node", l.node.Addr)
	l.end(err, wasUp)
}

func (l *line) serve(conn net.Conn) error {
	log := l.hub.x.log
	defer context.AfterFunc(l.ctx, guard.Func(log, "end of a subscriber", func() { conn.Close() }))()
	read := make(chan error, 1)
	go func() {
		read <- guard.Call(log, "subscription reader", func() error { return l.reader(conn) }, "node", l.node.Addr)
	}()
	err := l.write(conn, read)
	conn.Close()
	<-read
	return err
}

// write writes until the connection ends, and returns why. It leaves the reader's result in read.
func (l *line) write(conn net.Conn, read chan error) error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	timeout := l.hub.x.up.Dialer.Timeout()
	l.heard.Store(int64(time.Since(l.began)))
	for {
		if out := l.take(); len(out) > 0 {
			conn.SetWriteDeadline(time.Now().Add(timeout))
			if _, err := conn.Write(out); err != nil {
				return err
			}
		}
		select {
		case <-l.ctx.Done():
			return errUnused
		case err := <-read:
			read <- err
			return err
		case <-l.wake:
		case <-tick.C:
			if time.Since(l.began)-time.Duration(l.heard.Load()) > timeout {
				return errSilent
			}
			l.ping()
		}
	}
}

func (l *line) take() []byte {
	l.hub.x.mu.Lock()
	defer l.hub.x.mu.Unlock()
	out := l.out
	l.out = nil
	return out
}

// ping sends a PING, and an AUTH if Leash's own user has a new password.
func (l *line) ping() {
	l.hub.x.mu.Lock()
	defer l.hub.x.mu.Unlock()
	if l.pings == 0 {
		l.submitLocked(&request{ping: true})
	}
	if !l.hub.lane.RESP3 { // Redis takes no AUTH from a subscriber in RESP2
		return
	}
	if command := l.hub.x.up.Dialer.LoginAgain(l.hub.lane, &l.login); command != nil {
		l.submitLocked(&request{login: command})
	}
}

// end finishes the requests in flight and removes the line from the hub.
func (l *line) end(cause error, wasUp bool) {
	h, x := l.hub, l.hub.x
	if l.ctx.Err() == nil && !errors.Is(cause, dial.ErrRefused) {
		x.log.Debug("subscriber's connection ended", "node", l.node.Addr, "err", cause)
		x.up.Refresh()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	l.over = true
	h.lostLocked(l, wasUp)
	for _, r := range l.waiting {
		l.finishLocked(r, cause)
	}
	l.waiting = nil
	if errors.Is(cause, dial.ErrRefused) {
		h.warnLocked(&h.badCredentials, "redis refuses a subscriber's password")
		for _, entries := range h.entries {
			for _, e := range entries {
				h.refuseLocked(e, "credential refused")
			}
		}
	}
}
