package dial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// AskTimeout bounds one question about the topology to one node.
const AskTimeout = 2 * time.Second

// Ask runs f with a short-lived client of the upstream user for one node.
func (d *Dialer) Ask(ctx context.Context, addr string, f func(context.Context, *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	end, _ := ctx.Deadline()
	c := redis.NewClient(&redis.Options{
		Addr: addr, Dialer: d.DialOwn, CredentialsProviderContext: d.OwnCredentials,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 1,
		DialTimeout:           max(time.Until(end), time.Millisecond), // go-redis dials in the background, without ctx
		ContextTimeoutEnabled: true, DialerRetries: 1,
	})
	defer c.Close()
	err := f(ctx, c)
	if errors.Is(err, redis.Nil) {
		err = ErrNull
	}
	if err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	return nil
}

// ErrNull is the error for a null reply. It replaces go-redis's "redis: nil".
var ErrNull = errors.New("a null, where Redis gives a value")

// IsReply reports whether an error is a reply of Redis.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// ErrDemoted means that a server is not a master.
var ErrDemoted = errors.New("upstream: it is not a master")

// IsMaster asks a server for its role, on a new connection. It returns nil if the server is a
// master, or refuses to answer because of a script or missing rights.
func (d *Dialer) IsMaster(ctx context.Context, addr string) error {
	var refusal redis.Error
	return d.Ask(ctx, addr, func(ctx context.Context, c *redis.Client) error {
		role, err := c.Do(ctx, "ROLE").Slice()
		switch {
		case errors.As(err, &refusal):
			return nil
		case err != nil:
			return err
		case len(role) == 0 || role[0] != "master":
			return ErrDemoted
		}
		return nil
	})
}
