package dial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"

	"leash/proxy/resp"
)

// logIn authenticates conn as a user. It does nothing without a name.
func (d *Dialer) logIn(ctx context.Context, conn net.Conn, user string) error {
	if user == "" {
		return nil
	}
	if d.IsOwn(user) {
		d.ReadPassword("")
	}
	password := d.passwordOf(user)
	if password == nil { // the user's last session has left
		return ErrOldPassword
	}
	reply, err := RoundTrip(ctx, conn, authCommand(user, password), "+")
	switch {
	case err != nil:
		return err
	case refusesCredential(reply) && d.hasOther(user, password):
		return ErrOldPassword
	case refusesCredential(reply) && d.IsOwn(user):
		d.noteOwnLogin(conn.RemoteAddr(), reply)
		return fmt.Errorf("%w: %w", ErrOwnPassword, resp.ErrorIn(reply))
	case refusesCredential(reply):
		return fmt.Errorf("%w: %w", ErrRefused, resp.ErrorIn(reply))
	case reply[0] == '-':
		return resp.ErrorIn(reply)
	}
	if d.IsOwn(user) {
		d.noteOwnLogin(conn.RemoteAddr(), reply)
		d.noteAccepted(string(password))
	}
	return nil
}

// logInAsService authenticates conn as Leash's own user, if Leash was given a credential.
func (d *Dialer) logInAsService(ctx context.Context, conn net.Conn) error {
	return d.logIn(ctx, conn, d.ServiceLane().User)
}

// ErrOldPassword means that another password for the user is known now, or that the user's last
// session has left. The caller dials again.
var ErrOldPassword = errors.New("upstream: password changed meanwhile")

// hasOther reports whether there is another password for a user than the refused one. It is one
// that Redis has accepted since, or the configured one.
func (d *Dialer) hasOther(user string, refused []byte) bool {
	if !bytes.Equal(d.passwordOf(user), refused) {
		return true
	}
	if !d.IsOwn(user) {
		return false
	}
	own := d.ReadPassword(string(refused))
	if own == "" || own == string(refused) {
		return false
	}
	d.setPassword(user, []byte(own))
	return true
}

// refusesCredential reports whether the reply to AUTH means that the credential is wrong. It knows
// the texts of Redis 6 and later and of older versions. Other errors, such as too many clients, are
// not about the credential.
func refusesCredential(reply []byte) bool {
	return resp.HasCode(reply, "WRONGPASS") || bytes.HasPrefix(reply, []byte("-ERR invalid password")) ||
		bytes.Contains(reply, []byte("without any password configured"))
}

// Try sends an AUTH or HELLO on a connection of its own and returns its reply: an error, a status,
// a map or an array. If Redis accepts the credential, later dials of the user's lanes use it. It
// blocks as long as ctx allows.
func (d *Dialer) Try(ctx context.Context, addr string, command []byte, user string,
	password []byte) (reply []byte, err error) {
	conn, err := d.Open(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err = RoundTrip(ctx, conn, command, "+%*")
	if err == nil && reply[0] == '+' {
		d.setPassword(user, password)
	}
	return reply, err
}
