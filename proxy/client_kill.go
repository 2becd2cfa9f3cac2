package proxy

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
	kind              clientKind
	hasKind           bool
	maxAge            time.Duration
	self              bool // the client that sends the command may match
}

// clientKill answers both forms of CLIENT KILL
// (https://redis.io/docs/latest/commands/client-kill/). The locks of a killed client expire (rule
// R28), because the client may still be at work.
func (s *session) clientKill(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) {
		return true
	}
	old := len(cmd.Args) == 3
	f, problem := parseKillFilter(cmd.Args)
	if problem != "" {
		return s.fail(problem)
	}
	check := []string{"CLIENT", "KILL", "TYPE", "?"}
	if f.user != "" {
		check = []string{"CLIENT", "KILL", "USER", f.user, "TYPE", "?"} // Redis knows which users exist
	}
	if !s.router.Permitted(check...) {
		return true
	}
	killed, killsItself := s.killOthers(f)
	switch {
	case !old:
		s.scratch = resp.AppendInt(s.scratch[:0], int64(killed))
		s.answer(s.scratch)
	case killed == 0:
		return s.fail(msgNoSuchClient)
	default:
		s.ok()
	}
	if killsItself {
		s.cause = endKilled
	}
	return !killsItself
}

func (s *session) killOthers(f killFilter) (killed int, killsItself bool) {
	for _, one := range s.server.sortedSessions() {
		if one == s && !f.self || one.isCut() || !f.fits(one.describe()) {
			continue
		}
		killed++
		if one == s {
			killsItself = true
			continue
		}
		one.kill("client kill", true)
	}
	return killed, killsItself
}

func (f killFilter) fits(d *description) bool {
	return (f.addr == "" || f.addr == d.addr) && (f.laddr == "" || f.laddr == d.laddr) &&
		(f.user == "" || f.user == d.user) &&
		(f.id == 0 || f.id == d.id) && (!f.hasKind || f.kind == d.kind()) && d.age >= f.maxAge
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
		if f.kind, f.hasKind = clientType(value); !f.hasKind {
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
