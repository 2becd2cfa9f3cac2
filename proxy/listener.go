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

const maxAcceptDelay = time.Second

// listener accepts clients: it keeps their number within the limit, waits
// after a failed accept (5 ms, doubling to 1 s, as net/http does) and, when
// accepting stops, keeps redcon in Accept until the sessions have ended.
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

// Accept returns the next client. Once accepting has stopped it blocks until
// finish and then returns net.ErrClosed.
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

// stopAccepting closes the port; those connected stay.
func (l *listener) stopAccepting() {
	l.stopped.Store(true)
	l.Listener.Close()
}

// finish lets redcon's loop end.
func (l *listener) finish() { l.stop.Do(func() { close(l.release) }) }

// Close is redcon's; it closes the port.
func (l *listener) Close() error {
	l.stopAccepting()
	return nil
}

// admit makes a session of an accepted connection, or refuses it in Redis's
// words when there are too many.
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
