package links

import (
	"context"
	"fmt"
	"net"

	"leash/proxy/dial"
)

// Ask sends a command on the link and waits for its reply. The command must leave the connection as
// it is.
func (l *Link) Ask(ctx context.Context, command []byte) ([]byte, error) {
	return l.AskAll(ctx, command, 1)
}

// AskAll is Ask for n commands at once. The replies come one after the other.
func (l *Link) AskAll(ctx context.Context, commands []byte, n int) (replies []byte, err error) {
	return l.Path(false).ask(ctx, commands, n)
}

// ask is AskAll without a detour.
func (l *Link) ask(ctx context.Context, commands []byte, n int) ([]byte, error) {
	ended := make(chan struct{})
	var replies []byte
	var err error
	l.Submit(&Request{Command: commands, Replies: n, Sink: &whole{ended: func(got []byte, lost error) {
		replies, err = got, lost
		close(ended)
	}}})
	select {
	case <-ended:
		return replies, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// whole is the sink of a command that Leash itself sends.
type whole struct {
	reply []byte
	ended func(reply []byte, lost error) // called once; it must not block
}

// Reply implements Sink.
func (w *whole) Reply(part []byte, done bool) Flusher {
	w.reply = append(w.reply, part...)
	if done {
		w.ended(w.reply, nil)
	}
	return nil
}

// Lost implements Sink.
func (w *whole) Lost(_ bool, cause error) { w.ended(nil, cause) }

// Urgent sends one command on a new connection, so that it does not wait for the requests on a
// link. The connection is set up for the lane, but in database 0. Urgent blocks for at most
// dial.Config.UpstreamTimeout. It returns Redis's reply, which may be an error. err is an error of
// the network.
func (n *Node) Urgent(ctx context.Context, lane dial.Lane, command []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, n.nodes.Dialer.Timeout())
	defer cancel()
	lane.DB = 0 // Redis allows no SELECT while a script runs
	conn, err := n.Dial(ctx, lane)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Addr, err)
	}
	defer conn.Close()
	reply, err := dial.RoundTrip(ctx, conn, command, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Addr, err)
	}
	return reply, nil
}

// Try is dial.Dialer.Try at the node. No other Redis gets a password.
func (n *Node) Try(ctx context.Context, command []byte, user string, password []byte) (reply []byte, err error) {
	if err := n.checkIdentity(ctx); err != nil {
		return nil, err
	}
	return n.nodes.Dialer.Try(ctx, n.Addr, command, user, password)
}

// Dial opens a connection to the node for the caller alone, set up for a lane like that of a link.
// It blocks for at most the redirect time-out to connect and the upstream time-out for the set-up.
// The caller closes the connection. The error is dial.ErrRefused if Redis refuses the lane's
// credential.
func (n *Node) Dial(ctx context.Context, lane dial.Lane) (net.Conn, error) {
	if err := n.checkIdentity(ctx); err != nil {
		return nil, err
	}
	return n.nodes.Dialer.Dial(ctx, n.Addr, lane, !n.unresponsive.Load())
}
