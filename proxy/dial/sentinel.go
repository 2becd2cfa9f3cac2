package dial

import (
	"context"
	"net"

	"leash/proxy/resp"
)

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
