package dial

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"leash/proxy/resp"
)

// PingRequest is PING in the form of a client.
var PingRequest = []byte("*1\r\n$4\r\nPING\r\n")

// keepAlive finds hosts that vanished without closing their connections.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Dial opens a connection to addr and sets it up for lane. The connection is authenticated, and
// Redis has answered a PING. Dial blocks for at most the redirect time-out to connect, and as long
// again for the set-up. If patient is set, the set-up may take the upstream time-out, because a
// script may keep Redis from answering for some seconds. The error is ErrRefused if Redis refuses
// the lane's credential, but ErrOwnPassword if that is the one of Leash's own user. Each call
// resolves the host name again.
func (d *Dialer) Dial(ctx context.Context, addr string, lane Lane, patient bool) (net.Conn, error) {
	timeout := max(d.cfg.RedirectTimeout, time.Second)
	connecting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := d.Open(connecting, addr)
	if err != nil {
		return nil, err
	}
	// Leash asks after connecting. A later demotion ends the connection.
	if d.asksRole && !lane.Replica {
		if err := d.IsMaster(connecting, addr); err != nil {
			conn.Close()
			return nil, err
		}
	}
	if patient {
		timeout = d.cfg.UpstreamTimeout
	}
	settingUp, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := d.setUp(settingUp, conn, lane); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Open is OpenFor with the upstream time-out.
func (d *Dialer) Open(ctx context.Context, addr string) (net.Conn, error) {
	return d.OpenFor(ctx, addr, d.cfg.UpstreamTimeout)
}

// OpenFor connects to a Redis. Every connection to one begins here. On Linux it ends when nothing
// that was sent has been acknowledged for so long.
func (d *Dialer) OpenFor(ctx context.Context, addr string, unacknowledged time.Duration) (net.Conn, error) {
	return connect(ctx, addr, unacknowledged, d.cfg.TLS)
}

// connect connects with TLS, or without if config is nil.
func connect(ctx context.Context, addr string, unacknowledged time.Duration, config func() *tls.Config) (
	net.Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive, Control: endUnacknowledged(unacknowledged)}
	socket, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil || config == nil {
		return socket, err
	}
	return startTLS(ctx, addr, socket, config())
}

func (d *Dialer) setUp(ctx context.Context, conn net.Conn, lane Lane) error {
	if err := d.logIn(ctx, conn, lane.User); err != nil {
		return err
	}
	if lane.DB != 0 {
		if err := d.selectDB(ctx, conn, lane); err != nil {
			return err
		}
	}
	if lane.RESP3 {
		reply, err := RoundTrip(ctx, conn, resp.AppendCommand(nil, "HELLO", "3"), "%*")
		if err != nil {
			return err
		}
		if resp.HasCode(reply, "NOAUTH") {
			return fmt.Errorf("%w: %w", ErrRefused, resp.ErrorIn(reply))
		}
		if reply[0] == '-' {
			return resp.ErrorIn(reply)
		}
	}
	if lane.Replica { // a single Redis has no use for READONLY, and its error does no harm
		reply, err := RoundTrip(ctx, conn, resp.AppendCommand(nil, "READONLY"), "+")
		if err != nil {
			return err
		}
		if resp.HasCode(reply, "BUSY") { // READONLY was refused, so Redis would redirect every read
			return resp.ErrorIn(reply)
		}
	}
	reply, err := RoundTrip(ctx, conn, PingRequest, "+")
	if err != nil {
		return err
	}
	noauth := resp.HasCode(reply, "NOAUTH")
	if refusesConnection(reply) {
		return resp.ErrorIn(reply)
	}
	if lane.User == "" && !lane.Replica {
		d.authRequired.Store(noauth)
		if wasOpen := d.wasOpen.Swap(!noauth); wasOpen && noauth {
			d.onAuthRequired()
		}
	}
	return nil
}

// refusesConnection reports whether the reply to a PING means that the connection serves nothing.
// Redis has too many connections, or it is in protected mode. Other errors are about Redis's state
// (BUSY, LOADING, MASTERDOWN, MISCONF, NOREPLICAS …) or about rights. Redis then still answers some
// commands, so each client gets Redis's answer to its own.
func refusesConnection(reply []byte) bool {
	return resp.HasCode(reply, "ERR") || resp.HasCode(reply, "DENIED")
}
