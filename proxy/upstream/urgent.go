package upstream

import (
	"context"
	"fmt"
)

// Urgent sends one command on a new connection, so that it does not wait for the calls on a link.
// The connection is set up for the lane, but in database 0. Urgent blocks for at most
// Config.UpstreamTimeout. It returns Redis's reply, which may be an error. err is an error of the
// network.
func (n *Node) Urgent(ctx context.Context, lane Lane, command []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, n.up.cfg.UpstreamTimeout)
	defer cancel()
	lane.DB = 0 // Redis allows no SELECT while a script runs
	conn, err := n.up.dial(ctx, n.Addr, lane, !n.unresponsive.Load())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Addr, err)
	}
	defer conn.Close()
	stop := endWith(ctx, conn)
	defer stop()
	reply, err := roundTrip(conn, command, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Addr, err)
	}
	return reply, nil
}
