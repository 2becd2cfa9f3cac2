package proxy

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/guard"
)

// maxAcceptDelay is the longest pause after failed accepts.
const maxAcceptDelay = time.Second

// listener accepts clients and keeps their number within the limit. After a failed accept it
// pauses. The pause doubles from 5 ms to 1 s, as in net/http. When accepting stops, redcon stays in
// Accept until the sessions have ended.
type listener struct {
	net.Listener
	server   *Server
	balanced bool // its connections begin with a header of the PROXY protocol
	stopped  atomic.Bool
	stop     sync.Once
	release  chan struct{} // closed by finish
}

func newListener(ln net.Listener, s *Server) *listener {
	balanced := s.cfg.ProxyProtocol && ln.Addr().Network() != "unix"
	return &listener{Listener: ln, server: s, balanced: balanced, release: make(chan struct{})}
}

// Accept returns the next client. Once accepting has stopped, it blocks until finish and then
// returns net.ErrClosed.
func (l *listener) Accept() (net.Conn, error) {
	var delay time.Duration
	for {
		nc, err := l.Listener.Accept()
		switch {
		case err == nil:
			var c *conn
			if guard.Do(l.server.log, "accepting", func() { c = l.server.admit(nc, l.balanced) }) != nil {
				nc.Close()
			}
			if c != nil {
				return c, nil
			}
			delay = 0
		case l.stopped.Load() || errors.Is(err, net.ErrClosed):
			<-l.release
			return nil, net.ErrClosed
		default:
			delay = min(max(2*delay, 5*time.Millisecond), maxAcceptDelay)
			l.server.log.Warn("accept failed", "err", err, "pause", delay)
			l.server.pause(delay)
		}
	}
}

// stopAccepting closes the listening socket. Connected clients stay.
func (l *listener) stopAccepting() {
	l.stopped.Store(true)
	l.Listener.Close()
}

// finish lets Accept return, so that redcon's loop ends.
func (l *listener) finish() { l.stop.Do(func() { close(l.release) }) }

// Close closes the listening socket. redcon calls it.
func (l *listener) Close() error {
	l.stopAccepting()
	return nil
}

// admit makes a session for an accepted connection. It refuses the connection with Redis's own
// error when there are too many.
func (s *Server) admit(nc net.Conn, balanced bool) *conn {
	c, err := newConn(nc)
	if err != nil {
		s.log.Error("connection refused", "err", err)
		nc.Close()
		return nil
	}
	c.balanced = balanced
	c.session = newSession(s, c)
	if !s.add(c.session) {
		_, _ = c.try([]byte("-ERR max number of clients reached\r\n"))
		nc.Close()
		s.log.Log(s.ctx, slog.LevelDebug, "client refused", "client", nc.RemoteAddr(), "max-clients", s.cfg.MaxClients)
		return nil
	}
	return c
}
