package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"leash/internal/guard"
	"leash/proxy/resp"
)

// keepAlive finds hosts that vanished without closing their connections.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// dial opens a connection to addr and sets it up for lane. The connection is authenticated, and
// Redis has answered a PING. dial blocks for at most the redirect time-out to connect, and as long
// again for the set-up. If patient is set, the set-up may take the upstream time-out, because a
// script may keep Redis from answering for some seconds. The error is ErrRefused if Redis refuses
// the lane's credential, but errOwnPassword if that is the one of Leash's own user. Each call
// resolves the host name again.
func (u *Upstream) dial(ctx context.Context, addr string, lane Lane, patient bool) (net.Conn, error) {
	timeout := max(u.cfg.RedirectTimeout, time.Second)
	connecting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := u.connect(connecting, addr)
	if err != nil {
		return nil, err
	}
	// Leash asks after connecting. A later demotion ends the connection.
	if u.followsSentinels() && !lane.Replica {
		if err := u.isMaster(connecting, addr); err != nil {
			conn.Close()
			return nil, err
		}
	}
	if patient {
		timeout = u.cfg.UpstreamTimeout
	}
	settingUp, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := u.setUp(settingUp, conn, lane); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// connect connects to a Redis. Every connection to one begins here.
func (u *Upstream) connect(ctx context.Context, addr string) (net.Conn, error) {
	if u.cfg.TLS == nil {
		return connectPlain(ctx, addr)
	}
	return connectTLS(ctx, addr, u.cfg.TLS())
}

// connectSentinel connects to a sentinel.
func (u *Upstream) connectSentinel(ctx context.Context, addr string) (net.Conn, error) {
	if u.cfg.SentinelTLS == nil {
		return connectPlain(ctx, addr)
	}
	return connectTLS(ctx, addr, u.cfg.SentinelTLS())
}

func connectPlain(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, "tcp", addr)
}

func (u *Upstream) setUp(ctx context.Context, conn net.Conn, lane Lane) error {
	stop := endWith(ctx, conn)
	err := u.greet(conn, lane)
	if !stop() && err == nil {
		err = context.Cause(ctx) // the deadline of conn may be set
	}
	return err
}

// endWith ends reads and writes on conn when ctx is done. stop cancels that. It returns false if
// ctx was done before.
func endWith(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, guard.Func(nil, "deadline", func() { _ = conn.SetDeadline(time.Unix(1, 0)) }))
}

func (u *Upstream) greet(conn net.Conn, lane Lane) error {
	if err := u.logIn(conn, lane.User); err != nil {
		return err
	}
	if lane.DB != 0 {
		if err := u.selectDB(conn, lane); err != nil {
			return err
		}
	}
	if lane.RESP3 {
		reply, err := roundTrip(conn, resp.AppendCommand(nil, "HELLO", "3"), "%*")
		if err != nil {
			return err
		}
		if hasCode(reply, "NOAUTH") {
			return fmt.Errorf("%w: %s", ErrRefused, strings.TrimSpace(string(reply)))
		}
		if reply[0] == '-' {
			return errors.New(strings.TrimSpace(string(reply[1:])))
		}
	}
	if lane.Replica && u.cfg.Mode == "cluster" {
		reply, err := roundTrip(conn, resp.AppendCommand(nil, "READONLY"), "+")
		if err != nil {
			return err
		}
		if hasCode(reply, "BUSY") { // READONLY was refused, so Redis would redirect every read
			return errors.New(strings.TrimSpace(string(reply[1:])))
		}
	}
	reply, err := roundTrip(conn, pingRequest, "+")
	if err != nil {
		return err
	}
	noauth := hasCode(reply, "NOAUTH")
	if refusesConnection(reply) {
		return errors.New(strings.TrimSpace(string(reply[1:])))
	}
	if lane.User == "" && !lane.Replica && u.authRequired.Swap(noauth) != noauth && noauth {
		u.closeAnonymous()
	}
	return nil
}

// refusesConnection reports whether the reply to a PING means that the connection serves nothing.
// Redis has too many connections, or it is in protected mode. Other errors are about Redis's state
// (BUSY, LOADING, MASTERDOWN, MISCONF, NOREPLICAS …) or about rights. Redis then still answers some
// commands, so each client gets Redis's answer to its own.
func refusesConnection(reply []byte) bool { return hasCode(reply, "ERR") || hasCode(reply, "DENIED") }

// logIn authenticates conn as a user. It does nothing without a name.
func (u *Upstream) logIn(conn net.Conn, user string) error {
	if user == "" {
		return nil
	}
	if u.isOwn(user) {
		u.readPassword("")
	}
	password := u.credentials.get(user)
	if password == nil { // the user's last session has left
		return errOldPassword
	}
	reply, err := roundTrip(conn, authCommand(user, password), "+")
	switch {
	case err != nil:
		return err
	case refusesCredential(reply) && u.hasOther(user, password):
		return errOldPassword
	case refusesCredential(reply) && u.isOwn(user):
		u.noteOwnLogin(conn.RemoteAddr(), reply)
		return fmt.Errorf("%w: %s", errOwnPassword, strings.TrimSpace(string(reply)))
	case refusesCredential(reply):
		return fmt.Errorf("%w: %s", ErrRefused, strings.TrimSpace(string(reply)))
	case reply[0] == '-':
		return errors.New(strings.TrimSpace(string(reply[1:])))
	}
	if u.isOwn(user) {
		u.noteOwnLogin(conn.RemoteAddr(), reply)
	}
	return nil
}

// errOldPassword means that another password for the user is known now. The caller dials again.
var errOldPassword = errors.New("upstream: password changed meanwhile")

// hasOther reports whether there is another password for a user than the refused one. It is one
// that Redis has accepted since, or the configured one.
func (u *Upstream) hasOther(user string, refused []byte) bool {
	if !bytes.Equal(u.credentials.get(user), refused) {
		return true
	}
	if !u.isOwn(user) {
		return false
	}
	own := u.readPassword(string(refused))
	if own == "" || own == string(refused) {
		return false
	}
	u.credentials.set(user, []byte(own))
	return true
}

// refusesCredential reports whether the reply to AUTH means that the credential is wrong. It knows
// the texts of Redis 6 and later and of older versions. Other errors, such as too many clients, are
// not about the credential.
func refusesCredential(reply []byte) bool {
	return hasCode(reply, "WRONGPASS") || bytes.HasPrefix(reply, []byte("-ERR invalid password")) ||
		bytes.Contains(reply, []byte("without any password configured"))
}

// Authenticate tries a credential on a new connection and returns Redis's reply. On a link, the
// answer could be confused with those of other sessions. If a node does not answer, Authenticate
// tries another one. If Redis accepts the credential, later dials of the user's lanes use it. It
// blocks for at most the upstream time-out.
func (u *Upstream) Authenticate(ctx context.Context, command []byte, user string, password []byte) (reply []byte,
	ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.UpstreamTimeout)
	defer cancel()
	reply, err = u.FirstAnswer(ctx, func(ctx context.Context, n *Node) ([]byte, error) {
		return u.askAlone(ctx, n.Addr, command)
	})
	if err != nil {
		return nil, false, err
	}
	if ok = reply[0] == '+'; ok {
		u.credentials.set(user, password)
	}
	return reply, ok, nil
}

// askAlone sends one command on a connection of its own and reads its reply: an error, a status, a
// map or an array.
func (u *Upstream) askAlone(ctx context.Context, addr string, command []byte) ([]byte, error) {
	conn, err := u.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := endWith(ctx, conn)
	defer stop()
	return roundTrip(conn, command, "+%*")
}

// roundTrip sends one command on a connection without calls in flight and reads its reply. The
// reply must be an error or begin with one of the marks. Without marks, any reply is accepted.
func roundTrip(conn net.Conn, command []byte, marks string) ([]byte, error) {
	if _, err := conn.Write(command); err != nil {
		return nil, err
	}
	reply, err := resp.ReadReply(conn, maxSetUpReply, false)
	if err == nil && marks != "" && reply[0] != '-' && strings.IndexByte(marks, reply[0]) < 0 {
		return nil, resp.ErrFrame
	}
	return reply, err
}

func authCommand(user string, password []byte) []byte {
	return resp.AppendCommand(nil, "AUTH", user, string(password))
}

// hasCode reports whether reply is an error whose first word is code.
func hasCode(reply []byte, code string) bool {
	return len(reply) > len(code)+1 && reply[0] == '-' && string(reply[1:len(code)+1]) == code &&
		(reply[len(code)+1] == ' ' || reply[len(code)+1] == '\r')
}
