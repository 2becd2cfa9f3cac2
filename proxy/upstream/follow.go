package upstream

import (
	"context"
	"net"
	"time"

	"leash/internal/guard"
)

// dialMaster dials, for go-redis, the one master there is. The connection ends
// when another takes its place.
func (u *Upstream) dialMaster(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, max(u.cfg.RedirectTimeout, time.Second))
	defer cancel()
	n := u.Topology().masters[0]
	conn, err := u.connect(ctx, n.Addr)
	if err != nil {
		return nil, err
	}
	if u.followsSentinels() {
		if err := u.isMaster(ctx, n.Addr); err != nil {
			conn.Close()
			u.Refresh()
			return nil, err
		}
	}
	b := &boundConn{TCPConn: conn.(*net.TCPConn)}
	b.unbind = context.AfterFunc(n.ctx, guard.Func(u.log, "end of a node", func() { b.TCPConn.Close() }))
	return b, nil
}

// boundConn is a connection that ends with its node.
type boundConn struct {
	*net.TCPConn // not net.Conn: go-redis looks whether idle ones still stand, by the descriptor
	unbind       func() bool
}

// Close implements net.Conn.
func (b *boundConn) Close() error {
	b.unbind()
	return b.TCPConn.Close()
}
