package clients

import (
	"fmt"
	"time"

	"leash/proxy/command"
	"leash/proxy/resp"
)

const (
	msgNoSuchClient = "ERR No such client"
	msgKillID       = "ERR client-id should be greater than 0"
	msgMaxAge       = "ERR maxage is not an integer or out of range"
)

// killFilter selects the clients for CLIENT KILL. A client must match all fields that are set.
type killFilter struct {
	addr, laddr, user string
	id                int64
	kind              kind
	hasKind           bool
	maxAge            time.Duration
	self              bool // the client that sends the command may match
}

// kill answers both forms of CLIENT KILL
// (https://redis.io/docs/latest/commands/client-kill/).
func kill(by Caller, cmd resp.Command) bool {
	old := len(cmd.Args) == 3
	f, problem := parseKillFilter(cmd.Args)
	if problem != "" {
		return by.Router.Fail(problem)
	}
	check := []string{"CLIENT", "KILL", "TYPE", "?"}
	if f.user != "" {
		check = []string{"CLIENT", "KILL", "USER", f.user, "TYPE", "?"} // Redis knows which users exist
	}
	if !by.Router.Permitted(check...) {
		return true
	}
	killed, itself := by.killAll(f)
	switch {
	case !old:
		by.answerInt(int64(killed))
	case killed == 0:
		return by.Router.Fail(msgNoSuchClient)
	default:
		by.Router.OK()
	}
	if itself {
		by.EndKilled()
	}
	return !itself
}

// killAll kills all clients that fit but the one that asks. itself reports whether that one fits.
func (by Caller) killAll(f killFilter) (killed int, itself bool) {
	for _, one := range by.Clients() {
		own := one == Client(by.Session)
		if own && !f.self || !f.fits(one.Describe()) {
			continue
		}
		if own {
			itself = true
		} else if !one.Kill() {
			continue
		}
		killed++
	}
	return killed, itself
}

func (f killFilter) fits(d *Description) bool {
	return (f.addr == "" || f.addr == d.Addr) && (f.laddr == "" || f.laddr == d.LocalAddr) &&
		(f.user == "" || f.user == d.User) &&
		(f.id == 0 || f.id == d.ID) && (!f.hasKind || f.kind == d.kind()) && d.Age >= f.maxAge
}

// parseKillFilter parses the arguments as Redis does, or returns the error.
func parseKillFilter(args [][]byte) (f killFilter, problem string) {
	if len(args) == 3 {
		return killFilter{addr: string(args[2]), self: true}, ""
	}
	for i := 2; i < len(args); i += 2 {
		if i+1 == len(args) {
			return f, command.SyntaxError
		}
		if problem = f.set(args[i], args[i+1]); problem != "" {
			return f, problem
		}
	}
	return f, ""
}

func (f *killFilter) set(name, value []byte) (problem string) {
	var ok bool
	switch {
	case resp.IsWord(name, "ID"):
		if f.id, ok = resp.ParseInt(value); !ok || f.id <= 0 {
			return msgKillID
		}
	case resp.IsWord(name, "TYPE"):
		if f.kind, f.hasKind = kindOf(value); !f.hasKind {
			return fmt.Sprintf(msgClientType, command.Quoted(value, command.MaxQuoted))
		}
	case resp.IsWord(name, "ADDR"):
		f.addr = string(value)
	case resp.IsWord(name, "LADDR"):
		f.laddr = string(value)
	case resp.IsWord(name, "USER"):
		f.user = string(value)
	case resp.IsWord(name, "SKIPME") && resp.IsWord(value, "YES"):
		f.self = false
	case resp.IsWord(name, "SKIPME") && resp.IsWord(value, "NO"):
		f.self = true
	case resp.IsWord(name, "MAXAGE"):
		seconds, ok := resp.ParseInt(value)
		if !ok {
			return msgMaxAge
		}
		f.maxAge = time.Duration(seconds) * time.Second
	default:
		return command.SyntaxError
	}
	return ""
}
