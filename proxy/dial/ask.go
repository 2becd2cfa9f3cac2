package dial

import (
	"context"
	"errors"
	"net"
	"time"

	"leash/proxy/resp"
)

// AskTimeout bounds one question about the topology to one node.
const AskTimeout = 2 * time.Second

// Ask runs f with a connection of Leash's own user to one node, for at most AskTimeout.
func (d *Dialer) Ask(ctx context.Context, addr string, f func(*Conn) error) error {
	return ask(ctx, addr, func(ctx context.Context, addr string) (*Conn, error) {
		c, err := open(ctx, addr, d.Open, d.logInAsService)
		if errors.Is(err, ErrOldPassword) {
			c, err = open(ctx, addr, d.Open, d.logInAsService)
		}
		return c, err
	}, f)
}

// IsReply reports whether an error is a reply of Redis.
func IsReply(err error) bool {
	_, ok := errors.AsType[resp.ReplyError](err)
	return ok || errors.Is(err, ErrNull)
}

// ErrDemoted means that a server is not a master.
var ErrDemoted = errors.New("upstream: it is not a master")

// IsMaster asks a server for its role, on a new connection. It returns nil if the server is a
// master, or refuses to answer because of a script or missing rights.
func (d *Dialer) IsMaster(ctx context.Context, addr string) error {
	return d.Ask(ctx, addr, func(c *Conn) error {
		role, err := c.List("ROLE")
		switch {
		case IsReply(err):
			return nil
		case err != nil:
			return err
		case len(role) == 0 || role[0] != "master":
			return ErrDemoted
		}
		return nil
	})
}

// AskSentinel is Ask for a sentinel.
func (d *Dialer) AskSentinel(ctx context.Context, addr string, f func(*Conn) error) error {
	return ask(ctx, addr, d.DialSentinel, f)
}

// DialSentinel opens a connection to a sentinel. It blocks as long as ctx allows.
func (d *Dialer) DialSentinel(ctx context.Context, addr string) (*Conn, error) {
	return open(ctx, addr, d.connectSentinel, d.logInToSentinel)
}

func (d *Dialer) logInToSentinel(ctx context.Context, conn net.Conn) error {
	password := d.readSentinelPassword()
	words := []string{"AUTH", d.cfg.SentinelUser, password}
	switch {
	case d.cfg.SentinelUser == "" && password == "":
		return nil
	case d.cfg.SentinelUser == "":
		words = []string{"AUTH", password}
	}
	reply, err := RoundTrip(ctx, conn, resp.AppendCommand(nil, words...), "+")
	if err == nil {
		err = resp.ErrorIn(reply)
	}
	return err
}

// readSentinelPassword returns the password for a connection to a sentinel. If it cannot be read,
// the last one stays, and the log says so once.
func (d *Dialer) readSentinelPassword() string {
	if d.cfg.ReadSentinelPassword == nil {
		return d.cfg.SentinelPassword
	}
	password, changed, err := d.sentinelPassword.read(d.cfg.ReadSentinelPassword, "")
	if changed {
		d.log.Info("read a new password for the sentinels")
	}
	if err != nil {
		d.log.Warn("cannot read the password for the sentinels again: using the last one", "err", err)
	}
	return password
}

func (d *Dialer) connectSentinel(ctx context.Context, addr string) (net.Conn, error) {
	return connect(ctx, addr, d.cfg.UpstreamTimeout, d.cfg.SentinelTLS)
}
