package pubsub

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// Reasons for which a line ends.
var (
	errSilent  = errors.New("pubsub: node is silent")
	errUnasked = errors.New("pubsub: a reply that nobody asked for")
	// errKept ends a line on which Redis does not let a user unsubscribe, so
	// that nothing stays subscribed for nobody.
	errKept  = errors.New("pubsub: redis does not let the user unsubscribe")
	errNoUse = errors.New("pubsub: connection not needed any more")
)

// pingEvery is how often a line says something, so that a node that is gone is
// noticed.
const pingEvery = time.Second

// line is one connection to a node, in RESP2, which every server speaks. It is
// written by one goroutine (run) and read by another (reader); when it breaks
// it is over, and the hub makes a new one. Its fields are guarded by
// Exchange.mu unless they say otherwise.
type line struct {
	hub  *hub            // immutable
	node *upstream.Node  // immutable
	wake chan struct{}   // size 1: there is something to write
	ctx  context.Context // done when the line is to end
	stop context.CancelFunc

	heard atomic.Int64 // when Redis last said something, since began; atomic

	receivers []receiver         // of the message being handed out; of the reader
	touched   []upstream.Flusher // who got something of what was read; of the reader
	readAt    time.Time          // when the reader read last; of the reader

	began   time.Time // immutable
	out     []byte    // commands to be written
	waiting []*request
	pings   int                     // of waiting
	state   [kinds]map[string]state // by name; none for what Redis does not have
	idle    time.Time               // since when nothing is on it; zero: something is
	over    bool
	master  bool // the node is a master, and its keyspace events count
}

// state is what is known of a subscription on a line.
type state uint8

const (
	none    state = iota
	asked         // asked for
	joined        // Redis has it
	leaving       // Redis has it and is asked to end it
)

// request is one command on a line. Its replies come in order with those of
// others.
type request struct {
	line    *line
	ping    bool
	join    bool
	kind    Kind
	names   []string
	asked   time.Time
	had     int            // names that were confirmed
	refusal []byte         // the error that answered it
	lost    error          // why there was no answer
	done    chan struct{}  // closed at the end
	after   func(*request) // called at the end with mu held; may be nil
}

func newLine(h *hub, n *upstream.Node) *line {
	l := &line{hub: h, node: n, wake: make(chan struct{}, 1), began: time.Now(), master: h.isMasterLocked(n)}
	for kind := range l.state {
		l.state[kind] = make(map[string]state)
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// joinLocked asks for subscriptions.
func (l *line) joinLocked(kind Kind, names []string, after func(*request)) *request {
	for _, name := range names {
		if l.state[kind][name] != joined {
			l.state[kind][name] = asked
		}
	}
	return l.submitLocked(&request{join: true, kind: kind, names: names, after: after})
}

// leaveLocked asks for the end of subscriptions.
func (l *line) leaveLocked(kind Kind, names []string) *request {
	for _, name := range names {
		l.state[kind][name] = leaving
	}
	return l.submitLocked(&request{kind: kind, names: names})
}

func (l *line) submitLocked(r *request) *request {
	r.line, r.asked, r.done = l, time.Now(), make(chan struct{})
	if l.over {
		l.finishLocked(r, errNoUse)
		return r
	}
	if r.ping {
		// not inline, which the embedded Redis does not know
		l.out = resp.AppendCommand(l.out, "PING")
		l.pings++
	} else {
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

// hangUpLocked ends the line, which takes no more requests.
func (l *line) hangUpLocked() {
	l.stop()
	if l.hub.lines[l.node] == l {
		delete(l.hub.lines, l.node)
	}
	if l.hub.home == l {
		l.hub.home = nil
	}
}

// run is the line's life: it dials, and writes what is asked for until the
// connection ends.
func (l *line) run(ctx context.Context) {
	log := l.hub.x.log
	defer l.stop()
	defer context.AfterFunc(ctx, guard.Func(log, "end of a subscriber", l.stop))()
	wasUp := false
	err := guard.Call(log, "subscriber", func() error {
		conn, err := l.hub.x.up.Dial(l.ctx, l.node, l.hub.lane)
		if err != nil {
			return err
		}
		wasUp = true
		return l.serve(conn)
	}, "node", l.node.Addr)
	l.end(err, wasUp)
}

// serve uses conn until it ends, and returns why.
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

// write writes until the connection ends, and returns why. read has the
// reader's end, and has it still afterwards.
func (l *line) write(conn net.Conn, read chan error) error {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	timeout := l.hub.x.up.Timeout()
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
			return errNoUse
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

func (l *line) ping() {
	l.hub.x.mu.Lock()
	defer l.hub.x.mu.Unlock()
	if l.pings == 0 {
		l.submitLocked(&request{ping: true})
	}
}

// end settles what was under way and lets the hub go on without the line.
func (l *line) end(cause error, wasUp bool) {
	h, x := l.hub, l.hub.x
	if l.ctx.Err() == nil && !errors.Is(cause, upstream.ErrRefused) {
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
	if errors.Is(cause, upstream.ErrRefused) {
		h.badCredentials.warnLocked(h, "redis refuses a subscriber's password")
		for _, entries := range h.entries {
			for _, e := range entries {
				h.refuseLocked(e, "credential refused")
			}
		}
	}
}
