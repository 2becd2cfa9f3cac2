package entry

import (
	"bytes"
	"errors"
	"io"
	"time"

	"leash/internal/limits"
	"leash/proxy/client"
	"leash/proxy/ending"
	"leash/proxy/merge"
)

// shakeHands does the TLS handshake of a client at a port for TLS.
func (c Client) shakeHands() error {
	if !c.Conn.Secure() {
		return nil
	}
	_ = c.Conn.SetDeadline(time.Now().Add(c.HeaderTimeout))
	if c.End.Leaving() {
		return ending.ErrLeaving // the session's leave has set a deadline that the one above may have replaced
	}
	if err := c.Conn.Handshake(); err != nil {
		return err
	}
	if !c.End.IsCut() {
		_ = c.Conn.SetDeadline(time.Time{})
	}
	return nil
}

// refuseHandshake counts and logs a failed handshake. It ignores a connection that closes without
// sending anything, because that may be a health check.
func (c Client) refuseHandshake(err error) {
	if c.End.By(err) == ending.Killed || err == io.EOF {
		return
	}
	kind, message := &c.handshake, "TLS handshake with a client failed, closing it"
	if errors.Is(err, client.ErrPlain) {
		kind, message = &c.plain, "a client does not speak TLS on a port of --tls-listen, closing it"
	}
	c.End.Set(ending.Refused)
	c.BadHandshakes.Add(1)
	c.warnTLS(kind, message, err)
}

func (c Client) warnTLS(kind *limits.Interval, message string, err error) {
	c.warn(kind, message, "session", c.Login.Router.ID, "client", c.Conn.RemoteAddr(), "err", err)
}

// RefuseTLS ends a client without TLS that begins with a TLS handshake, and returns true. No
// command begins so. It returns false for other clients.
func (c Client) RefuseTLS(first []byte) bool {
	if len(first) < 2 || first[0] != 0x16 || first[1] != 3 || c.Conn.Secure() {
		return false
	}
	c.End.Set(ending.Refused)
	c.BadHandshakes.Add(1)
	c.warnTLS(&c.tls, "a client speaks TLS on a port of --listen, closing it", errTLSAtPlainPort)
	return true
}

var errTLSAtPlainPort = errors.New("the port is not for TLS")

// ByCertificate moves the session to the lane of the user whom the client's certificate names.
// Redis checks the user's password first, as for AUTH.
//
// It does nothing if the certificate names no user. It returns false if the client cannot be that
// user: the client gets the reason, and the session ends. The client must not go on as Redis's
// default user, because it cannot know that. It may be called only while no call is in flight.
func (c Client) ByCertificate() bool {
	if c.UserOf == nil || !c.Conn.Secure() {
		return true
	}
	user, password, ok := c.UserOf(c.Conn.TLSState())
	if !ok {
		return true
	}
	refusal, err := c.Login.AsUser(user, password)
	if refusal == nil && err == nil {
		return true
	}
	r := c.Login.Router
	if r.Context.Err() != nil {
		c.End.Set(ending.Killed)
		return false
	}
	c.End.Set(ending.Refused)
	if err == nil {
		err = errors.New(string(bytes.TrimSpace(refusal[1:])))
		r.Answer(refusal)
	} else {
		r.Fail(merge.NotSent)
	}
	c.warnTLS(&c.user, "redis does not accept the user of a certificate, closing the client", err)
	return false
}
