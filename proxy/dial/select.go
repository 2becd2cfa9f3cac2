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

// selectDB moves conn, which is authenticated, to a database.
func selectDB(ctx context.Context, conn net.Conn, db int) error {
	reply, err := RoundTrip(ctx, conn, resp.AppendCommand(nil, "SELECT", strconv.Itoa(db)), "+")
	if err == nil && reply[0] == '-' {
		return &NoDatabase{strings.TrimSpace(string(reply[1:]))}
	}
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
