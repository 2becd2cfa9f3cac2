package dial

import (
	"context"
	"errors"
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
