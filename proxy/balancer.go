package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"leash/proxy/origin"
)

// headerWarnings is how often a missing or wrong header is warned of; the
// others show at level debug.
const headerWarnings = time.Minute

// readOrigin takes the balancer's header off the front of a connection that
// has one: from then on the connection is the client's. It blocks; an error
// ends the session.
func (s *session) readOrigin() error {
	if !s.conn.balanced {
		return nil
	}
	_ = s.conn.SetReadDeadline(s.since.Add(s.server.cfg.HeaderTimeout))
	if s.leaving.Load() {
		return errLeaving // or else the deadline would undo what leave has set
	}
	from, err := origin.Read(s.conn.Conn)
	if err != nil {
		return err
	}
	if from.Client != nil {
		s.conn.from.Store(&from)
	}
	_ = s.conn.SetReadDeadline(time.Time{})
	return nil
}

// refuseOrigin counts and logs a connection without a valid header. A connection that closes
// without sending anything may be a health check.
func (s *session) refuseOrigin(err error) {
	s.cause = s.causeOf(err)
	timeout := errors.Is(err, os.ErrDeadlineExceeded)
	if s.cause == endKilled || !timeout && !errors.Is(err, origin.ErrHeader) && err != io.ErrUnexpectedEOF {
		return
	}
	s.cause = endRefused
	s.server.stats.badHeaders.Add(1)
	log := s.server.log.Debug
	if s.server.headerWarnLimiter.due(time.Now(), headerWarnings) {
		log = s.server.log.Warn
	}
	log("connection without the header that --proxy-protocol asks for, closing it", "session", s.id, "balancer", s.conn.RemoteAddr(), "err", err)
}

// RemoteAddr is the client's address: the one in the header, if there is one.
func (c *conn) RemoteAddr() net.Addr {
	if from := c.from.Load(); from != nil {
		return from.Client
	}
	return c.Conn.RemoteAddr()
}

// LocalAddr is where the client connected: to Leash, or to its balancer.
func (c *conn) LocalAddr() net.Addr {
	if from := c.from.Load(); from != nil {
		return from.Server
	}
	return c.Conn.LocalAddr()
}

// intervalLimiter lets something happen once in a while. The zero value is due. Safe
// for concurrent use.
type intervalLimiter struct{ last atomic.Int64 }

// due reports whether it is the first time in the interval.
func (l *intervalLimiter) due(now time.Time, interval time.Duration) bool {
	last := l.last.Load()
	return (last == 0 || now.UnixNano()-last >= int64(interval)) && l.last.CompareAndSwap(last, now.UnixNano())
}
