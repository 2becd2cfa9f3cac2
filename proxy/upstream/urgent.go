package upstream

import (
	"context"
	"fmt"
)

// Urgent sends one command on a connection made for it, in the lane of a
// session but always in database 0: for what must not wait behind the calls on
// a link. It blocks for at most Config.UpstreamTimeout and returns Redis's reply,
// errors included; the error is one of the network.
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
