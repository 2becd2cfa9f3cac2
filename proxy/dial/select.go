package dial

import (
	"context"
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
func (d *Dialer) selectDB(ctx context.Context, conn net.Conn, lane Lane) error {
	command := resp.AppendCommand(nil, "SELECT", strconv.Itoa(lane.DB))
	reply, err := RoundTrip(ctx, conn, command, "+")
	if err == nil && resp.HasCode(reply, "NOPERM") && lane.User != "" {
		if done, err := d.selectAsService(ctx, conn, lane, command); done || err != nil {
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
func (d *Dialer) selectAsService(ctx context.Context, conn net.Conn, lane Lane, command []byte) (done bool,
	err error) {
	if err := d.becomeService(ctx, conn); err != nil {
		return false, err
	}
	reply, err := RoundTrip(ctx, conn, command, "+")
	if err != nil || reply[0] == '-' {
		return false, err
	}
	return true, d.logIn(ctx, conn, lane.User)
}

func (d *Dialer) becomeService(ctx context.Context, conn net.Conn) error {
	if d.cfg.User != "" || d.cfg.Password != "" {
		return d.logIn(ctx, conn, d.ServiceUser())
	}
	_, err := RoundTrip(ctx, conn, resp.AppendCommand(nil, "RESET"), "+")
	return err
}

// Adapt returns the commands that turn a connection of lane from into one of lane to. It blocks no
// longer than Config.ReadPassword.
func (d *Dialer) Adapt(from, to Lane) (commands [][]byte) {
	if to.User != from.User {
		if to.User == d.ServiceUser() {
			d.ReadPassword("")
		}
		commands = append(commands, authCommand(to.User, d.passwordOf(to.User)))
	}
	if to.RESP3 != from.RESP3 {
		version := "2"
		if to.RESP3 {
			version = "3"
		}
		commands = append(commands, resp.AppendCommand(nil, "HELLO", version))
	}
	if to.DB != from.DB {
		commands = append(commands, resp.AppendCommand(nil, "SELECT", strconv.Itoa(to.DB)))
	}
	return commands
}
