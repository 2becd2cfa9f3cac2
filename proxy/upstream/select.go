package upstream

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"leash/proxy/resp"
)

// NoDatabase means that Redis refuses a lane's connections the lane's database. Calls of the lane
// are lost with it.
type NoDatabase struct{ Reply string } // Redis's error, without '-' and line end

func (e *NoDatabase) Error() string { return e.Reply }

// selectDB moves conn, which is authenticated, to the lane's database. If the user may not run
// SELECT, Leash uses its own rights. The user has been in that database before, under another name
// or with other rights. Redis also leaves a connection in its database when the connection's user
// or rights change.
func (u *Upstream) selectDB(conn net.Conn, lane Lane) error {
	command := resp.AppendCommand(nil, "SELECT", strconv.Itoa(lane.DB))
	reply, err := roundTrip(conn, command, "+")
	if err == nil && hasCode(reply, "NOPERM") && lane.User != "" {
		if done, err := u.selectAsService(conn, lane, command); done || err != nil {
			return err
		}
	}
	if err == nil && reply[0] == '-' {
		return &NoDatabase{strings.TrimSpace(string(reply[1:]))}
	}
	return err
}

// selectAsService runs SELECT with the rights of Leash's own user. Then it authenticates conn as
// the lane's user again. done is false if Leash's own user may not run SELECT either.
func (u *Upstream) selectAsService(conn net.Conn, lane Lane, command []byte) (done bool, err error) {
	if err := u.becomeService(conn); err != nil {
		return false, err
	}
	reply, err := roundTrip(conn, command, "+")
	if err != nil || reply[0] == '-' {
		return false, err
	}
	return true, u.logIn(conn, lane.User)
}

// becomeService authenticates conn as Leash's own user.
func (u *Upstream) becomeService(conn net.Conn) error {
	if u.cfg.User != "" || u.cfg.Password != "" {
		return u.logIn(conn, u.ServiceUser())
	}
	_, err := roundTrip(conn, resp.AppendCommand(nil, "RESET"), "+")
	return err
}

// Select asks Redis whether a lane's user may use the lane's database. It asks on the lane's own
// link. SELECT changes nothing there, and the client gets Redis's own answer. So a thousand clients
// of one database share one connection. The session must have joined the lane. Select blocks until
// Redis has answered. reply is the whole answer.
func (u *Upstream) Select(ctx context.Context, lane Lane) (reply []byte, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.UpstreamTimeout)
	defer cancel()
	node := u.AnyNode()
	if node == nil {
		return nil, false, ErrUnreachable
	}
	reply, err = node.Link(lane).Ask(ctx, resp.AppendCommand(nil, "SELECT", strconv.Itoa(lane.DB)))
	if no, ok := errors.AsType[*NoDatabase](err); ok {
		return resp.AppendError(nil, no.Reply), false, nil
	}
	return reply, err == nil && reply[0] == '+', err
}
