package dial

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// SentinelClient makes a go-redis client of a sentinel.
func (d *Dialer) SentinelClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Dialer: d.dialSentinel, CredentialsProviderContext: d.sentinelCredentials,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 2,
		DialTimeout: AskTimeout, ContextTimeoutEnabled: true, DialerRetries: 1,
	})
}

// sentinelCredentials returns the name and the password for a connection to a sentinel. If the
// password cannot be read, the last one stays, and the log says so once. The error is always nil.
func (d *Dialer) sentinelCredentials(context.Context) (user, password string, err error) {
	if d.cfg.ReadSentinelPassword == nil {
		return d.cfg.SentinelUser, d.cfg.SentinelPassword, nil
	}
	password, changed, err := d.sentinelPassword.read(d.cfg.ReadSentinelPassword, "")
	if changed {
		d.log.Info("read a new password for the sentinels")
	}
	if err != nil {
		d.log.Warn("cannot read the password for the sentinels again: using the last one", "err", err)
	}
	return d.cfg.SentinelUser, password, nil
}

func (d *Dialer) dialSentinel(ctx context.Context, _, addr string) (net.Conn, error) {
	conn, err := d.connectSentinel(ctx, addr)
	if err != nil {
		return nil, err
	}
	return newCheckedConn(conn), nil
}

func (d *Dialer) connectSentinel(ctx context.Context, addr string) (net.Conn, error) {
	if d.cfg.SentinelTLS == nil {
		return connectPlain(ctx, addr)
	}
	return connectTLS(ctx, addr, d.cfg.SentinelTLS())
}
