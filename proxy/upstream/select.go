package upstream

import (
	"context"
	"errors"
	"strconv"

	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/resp"
)

// Select asks Redis whether a lane's user may use the lane's database. It asks on the lane's own
// link. SELECT changes nothing there, and the client gets Redis's own answer. So a thousand clients
// of one database share one connection. The session must have joined the lane. Select blocks until
// Redis has answered. reply is the whole answer.
func (u *Upstream) Select(ctx context.Context, lane dial.Lane) (reply []byte, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, u.Dialer.Timeout())
	defer cancel()
	node := u.AnyNode()
	if node == nil {
		return nil, false, links.ErrUnreachable
	}
	reply, err = node.Link(lane).Ask(ctx, resp.AppendCommand(nil, "SELECT", strconv.Itoa(lane.DB)))
	if no, ok := errors.AsType[*dial.NoDatabase](err); ok {
		return resp.AppendError(nil, no.Reply), false, nil
	}
	return reply, err == nil && reply[0] == '+', err
}
