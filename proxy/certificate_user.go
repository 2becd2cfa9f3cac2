package proxy

import (
	"bytes"
	"errors"
	"time"

	"leash/proxy/ending"
	"leash/proxy/merge"
)

// enterByCertificate moves the session to the lane of the user whom the client's certificate names.
// Redis checks the user's password first, as for AUTH, and enterByCertificate blocks until then.
//
// It does nothing if the certificate names no user. It returns false if the client cannot be that
// user: the client gets the reason, and the session ends. The client must not go on as Redis's
// default user, because it cannot know that. It may be called only while no call is in flight.
func (s *session) enterByCertificate() bool {
	userOf := s.server.cfg.UserOf
	if userOf == nil || !s.conn.Secure() {
		return true
	}
	user, password, ok := userOf(s.conn.TLSState())
	if !ok {
		return true
	}
	refusal, err := s.login().AsUser(user, password)
	if refusal == nil && err == nil {
		return true
	}
	s.end.Set(ending.Refused)
	if s.ctx.Err() != nil {
		s.end.Set(ending.Killed)
		return false
	}
	if err == nil {
		err = errors.New(string(bytes.TrimSpace(refusal[1:])))
		s.answer(refusal)
	} else {
		s.fail(merge.NotSent)
	}
	s.warnTLS(&s.server.tlsWarnLimiters.user,
		"redis does not accept the user of a certificate, closing the client", err)
	return false
}

// readRefused reads the first bytes of a client that has got an error. Without that, closing the
// socket could reset the connection before the client has read the error.
func (s *session) readRefused() {
	s.out.Flush()
	_ = s.conn.SetReadDeadline(time.Now().Add(s.server.cfg.HeaderTimeout))
	_ = s.read()
}
