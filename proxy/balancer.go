package proxy

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"leash/proxy/ending"
	"leash/proxy/origin"
)

// headerWarnInterval is the time between two warnings about a missing or wrong header. Other such
// headers are logged at level debug.
const headerWarnInterval = time.Minute

// readOrigin reads the PROXY protocol header of a connection that a balancer relays. All later
// bytes are the client's. It blocks. An error ends the session.
func (s *session) readOrigin() error {
	if !s.conn.Balanced() {
		return nil
	}
	_ = s.conn.SetReadDeadline(s.activity.since.Add(s.server.cfg.HeaderTimeout))
	if s.end.Leaving() {
		return errLeaving // leave has set a deadline that the one above may have replaced
	}
	if err := s.conn.ReadOrigin(); err != nil {
		return err
	}
	_ = s.conn.SetReadDeadline(time.Time{})
	return nil
}

// refuseOrigin counts and logs a connection without a valid header. It ignores a connection that
// closes without sending anything, because that may be a health check.
func (s *session) refuseOrigin(err error) {
	timeout := errors.Is(err, os.ErrDeadlineExceeded)
	if s.end.By(err) == ending.Killed || !timeout && !errors.Is(err, origin.ErrHeader) && err != io.ErrUnexpectedEOF {
		return
	}
	s.end.Set(ending.Refused)
	s.server.stats.badHeaders.Add(1)
	log := s.server.log.Debug
	if s.server.headerWarnLimiter.due(time.Now(), headerWarnInterval) {
		log = s.server.log.Warn
	}
	log("connection without the header that --proxy-protocol asks for, closing it", "session", s.id, "balancer",
		s.conn.RemoteAddr(), "err", err)
}

// intervalLimiter allows an event once per interval. The zero value allows the first one at once.
// It is safe for concurrent use.
type intervalLimiter struct{ last atomic.Int64 }

// due reports whether the event is allowed now. If it is, a new interval begins.
func (l *intervalLimiter) due(now time.Time, interval time.Duration) bool {
	last := l.last.Load()
	return (last == 0 || now.UnixNano()-last >= int64(interval)) && l.last.CompareAndSwap(last, now.UnixNano())
}
