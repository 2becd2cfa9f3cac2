package upstream

import (
	"context"
	"net"
	"time"
)

// dialMaster dials the only master, for go-redis. The connection ends when another master takes its
// place.
func (u *Upstream) dialMaster(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, max(u.RedirectTimeout(), time.Second))
	defer cancel()
	n := u.Topology().masters[0]
	conn, err := u.OpenOwn(ctx, n.Addr)
	if err != nil {
		return nil, err
	}
	if u.followsSentinels() {
		if err := u.IsMaster(ctx, n.Addr); err != nil {
			conn.Close()
			u.Refresh()
			return nil, err
		}
	}
	conn.CloseWith(n.Context())
	return conn, nil
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
	return u.DialOwn(ctx, network, addr)
}
