package proxy

import (
	"errors"
	"io"
	"time"

	"leash/proxy/client"
	"leash/proxy/ending"
)

// tlsWarnInterval is the time between two warnings of a kind about TLS. Other such connections are
// logged at level debug.
const tlsWarnInterval = time.Minute

// tlsWarnLimiters limit the warnings about TLS.
type tlsWarnLimiters struct{ plain, tls, handshake, user intervalLimiter }

// shakeHands does the TLS handshake of a client at a port for TLS. It blocks. An error ends the
// session.
func (s *session) shakeHands() error {
	if !s.conn.Secure() {
		return nil
	}
	_ = s.conn.SetDeadline(time.Now().Add(s.server.cfg.HeaderTimeout))
	if s.end.Leaving() {
		return errLeaving // leave has set a deadline that the one above may have replaced
	}
	if err := s.conn.Handshake(); err != nil {
		return err
	}
	if !s.end.IsCut() {
		_ = s.conn.SetDeadline(time.Time{})
	}
	return nil
}

// refuseHandshake counts and logs a failed handshake. It ignores a connection that closes without
// sending anything, because that may be a health check.
func (s *session) refuseHandshake(err error) {
	if s.end.By(err) == ending.Killed || err == io.EOF {
		return
	}
	s.end.Set(ending.Refused)
	s.server.stats.badHandshakes.Add(1)
	if errors.Is(err, client.ErrPlain) {
		s.warnTLS(&s.server.tlsWarnLimiters.plain,
			"a client does not speak TLS on a port of --tls-listen, closing it", err)
		return
	}
	s.warnTLS(&s.server.tlsWarnLimiters.handshake, "TLS handshake with a client failed, closing it", err)
}

// warnTLS logs a connection that ends because of TLS.
func (s *session) warnTLS(limiter *intervalLimiter, message string, err error) {
	log := s.server.log.Debug
	if limiter.due(time.Now(), tlsWarnInterval) {
		log = s.server.log.Warn
	}
	log(message, "session", s.id, "client", s.conn.RemoteAddr(), "err", err)
}

// beginsTLS reports whether a client without TLS begins with a TLS handshake. No command begins so.
func (s *session) beginsTLS() bool {
	p := s.input.batch.unparsed()
	return len(p) >= 2 && p[0] == 0x16 && p[1] == 3 && !s.conn.Secure()
}

// refuseTLS ends a client that speaks TLS on a port without TLS.
func (s *session) refuseTLS() {
	s.end.Set(ending.Refused)
	s.server.stats.badHandshakes.Add(1)
	s.warnTLS(&s.server.tlsWarnLimiters.tls, "a client speaks TLS on a port of --listen, closing it", errTLSAtPlainPort)
}

var errTLSAtPlainPort = errors.New("the port is not for TLS")

// certificateLines gives line what INFO tells about certificates: how often changed files could not
// be used, and the days until the first certificate ends. Without a certificate, the days are -1.
func (s *Server) certificateLines(line func(name string, value any)) {
	failures, days := int64(0), -1
	for _, c := range s.cfg.Certificates {
		failures += c.Failures()
		if end := c.Expiry(); !end.IsZero() {
			left := max(0, int(time.Until(end).Hours()/24))
			if days < 0 || left < days {
				days = left
			}
		}
	}
	line("tls_certificate_errors", failures)
	line("tls_certificate_days", days)
}
