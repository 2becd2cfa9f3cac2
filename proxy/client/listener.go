package client

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"

	"leash/internal/guard"
)

// maxAcceptDelay is the longest pause after failed accepts.
const maxAcceptDelay = time.Second

// Session serves one client.
type Session interface {
	// Run serves the client until the session has ended. It closes the Conn.
	Run()
	// End ends the session from outside, for a reason. It does not block.
	End(reason string)
}

// Config configures a Listener.
type Config struct {
	// Open returns the session of a new client, or nil to refuse the client. Then the Conn is
	// closed.
	Open          func(*Conn) Session
	ProxyProtocol bool                 // TCP connections begin with the PROXY protocol header of a balancer
	PeerTimeout   func() time.Duration // silence after which a guarded peer is dead; may change
	Log           *slog.Logger
	Sent          *atomic.Int64 // counts the bytes that sockets have taken; nil: nobody counts
}

// Listener accepts clients. After a failed accept it pauses. The pause doubles from 5 ms to 1 s, as
// in net/http. When accepting stops, redcon stays in Accept until the sessions have ended.
type Listener struct {
	ln       net.Listener
	tls      func() *tls.Config // nil: clients speak plain
	cfg      Config
	stopped  atomic.Bool
	finish   sync.Once
	finished chan struct{} // closed by Finish
}

// NewListener makes a Listener that accepts from ln.
func NewListener(ln net.Listener, cfg Config) *Listener {
	cfg.ProxyProtocol = cfg.ProxyProtocol && ln.Addr().Network() != "unix"
	return &Listener{ln: ln, tls: tlsOf(ln), cfg: cfg, finished: make(chan struct{})}
}

// Serve serves clients until Finish is called. Each session has a goroutine, for which it does not
// wait.
func (l *Listener) Serve() error {
	return guard.Call(l.cfg.Log, "accepting", func() error { return redcon.Serve((*acceptor)(l), serveTick, nil, nil) })
}

// StopAccepting closes the listening socket. Connected clients stay.
func (l *Listener) StopAccepting() {
	l.stopped.Store(true)
	l.ln.Close()
}

// Finish lets Serve return. It is called when the sessions have ended.
func (l *Listener) Finish() { l.finish.Do(func() { close(l.finished) }) }

// acceptor is a Listener as redcon sees it.
type acceptor Listener

// Addr returns the listening address.
func (a *acceptor) Addr() net.Addr { return a.ln.Addr() }

// Close closes the listening socket.
func (a *acceptor) Close() error {
	(*Listener)(a).StopAccepting()
	return nil
}

// Accept returns the next client. Once accepting has stopped, it blocks until Finish and then
// returns net.ErrClosed.
func (a *acceptor) Accept() (net.Conn, error) {
	var delay time.Duration
	for {
		nc, err := a.ln.Accept()
		switch {
		case err == nil:
			if c := a.open(nc); c != nil {
				return c, nil
			}
			delay = 0
		case a.stopped.Load() || errors.Is(err, net.ErrClosed):
			<-a.finished
			return nil, net.ErrClosed
		default:
			delay = min(max(2*delay, 5*time.Millisecond), maxAcceptDelay)
			a.cfg.Log.Warn("accept failed", "err", err, "pause", delay)
			select {
			case <-time.After(delay):
			case <-a.finished:
			}
		}
	}
}

// open opens a session for an accepted connection. It closes the connection and returns nil if
// there is none.
func (a *acceptor) open(nc net.Conn) *redconConn {
	var session Session
	c, err := newConn(nc, a.tlsConfig(), &a.cfg)
	if err != nil {
		a.cfg.Log.Error("connection refused", "err", err)
	} else {
		_ = guard.Do(a.cfg.Log, "accepting", func() { session = a.cfg.Open(c) })
	}
	if session == nil {
		nc.Close()
		return nil
	}
	return &redconConn{Conn: c, session: session, log: a.cfg.Log}
}

// tlsConfig returns the TLS settings of the next client, or nil.
func (a *acceptor) tlsConfig() *tls.Config {
	if a.tls == nil {
		return nil
	}
	return a.tls()
}

// tick is the only command of a connection that redcon's command reader sees. It is well formed.
// Its handler starts the session. redcon never sees the client's bytes. resp.Parser checks those.
const tick = "*1\r\n$4\r\nTICK\r\n"

// redconConn is a connection as redcon sees it. It yields one tick and discards writes. redcon can
// close it at any time without blocking.
type redconConn struct {
	*Conn
	session Session
	log     *slog.Logger
	ticked  bool // used by redcon's goroutine only
}

// serveTick is redcon's handler. It starts the session and takes the connection away from redcon,
// whose two buffers of 4 KiB then go. The user of the Listener waits for the end of its sessions.
func serveTick(rc redcon.Conn, _ redcon.Command) {
	c := rc.NetConn().(*redconConn)
	rc.Detach()
	go guard.Func(c.log, "session", c.session.Run)()
}

// Read yields the tick, and io.EOF once the session is over.
func (c *redconConn) Read(p []byte) (int, error) {
	if c.ticked {
		return 0, io.EOF
	}
	c.ticked = true
	return copy(p, tick), nil
}

// Write discards what redcon writes, which is always empty.
func (c *redconConn) Write(p []byte) (int, error) { return len(p), nil }

// Close ends the session, which then closes the socket. redcon calls it with its mutex held, so it
// does not block.
func (c *redconConn) Close() error {
	if !c.closed.Load() {
		c.session.End("server closed")
	}
	return nil
}
