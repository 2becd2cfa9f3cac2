package upstream

import (
	"context"
	"net"
	"time"

	"leash/internal/guard"
)

// dialMaster dials the only master, for go-redis. The connection ends when another master takes its
// place.
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
	b := &boundConn{checkedConn: u.newOwnConn(conn)}
	b.unbind = context.AfterFunc(n.ctx, guard.Func(u.log, "end of a node", func() { conn.Close() }))
	return b, nil
}

// boundConn is a connection that ends when its node ends.
type boundConn struct {
	*checkedConn
	unbind func() bool
}

// Close implements net.Conn.
func (b *boundConn) Close() error {
	b.unbind()
	return b.checkedConn.Close()
}

// dialNamed dials for go-redis's cluster client. A redirect without a host means the host of the
// node that sent it, which go-redis does not fill in. Nodes usually differ by their port, so Leash
// uses the known node with that port.
func (u *Upstream) dialNamed(ctx context.Context, network, addr string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(addr); err == nil && (host == "" || host == "?") {
		for _, n := range u.Topology().Holders() {
			if _, p, _ := net.SplitHostPort(n.Addr); p == port {
				addr = n.Addr
				break
			}
		}
	}
	return u.dialChecked(ctx, network, addr)
}
