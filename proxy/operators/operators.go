// Package operators is LEASH and its commands for operators. Each of them is about this Leash
// alone, and is answered from memory.
package operators

import (
	"fmt"
	"sync"
	"time"

	"leash/lockcmd"
	"leash/lockcmd/view"
	"leash/proxy/clients"
	"leash/proxy/command"
	"leash/proxy/commandinfo"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/slowlog"
	"leash/proxy/usage"
)

// Server is what the commands show of a server. Its methods are safe for concurrent use, and do not
// block.
type Server interface {
	// Nodes shows the nodes of Redis.
	Nodes() []links.NodeView
	// FindClients lists the clients that fit: count of them at most, after the first ones. found is
	// how many fit in all.
	FindClients(fits func(*clients.Description) bool, first, count int) (found int, shown []*clients.Description)
	// Waiters are the clients whose lock command waits.
	Waiters() []Waiter
	// Fields gives every field of INFO leash to line, in order. A value is a string or an integer.
	Fields(line func(name string, value any))
}

// Waiter is a client whose lock command waits.
type Waiter struct {
	Client   string // as logs show it
	ClientID int64
	view.Waiter
}

// Leash is what the commands need of this Leash.
type Leash struct {
	Server   Server
	Locks    *lockcmd.Service
	Slow     *slowlog.Log
	Settings ProcessSettings
	Stop     func()          // ends the process in an orderly way; nil: the command is refused
	Commands []usage.Command // of LEASH

	listing sync.Mutex // a list is being made
}

// Caller is the client that runs a command.
type Caller struct {
	*Leash
	Router *route.Router
	Client string // as logs show it
	User   string
}

// Run answers a command of this family. It returns false when the session ends.
type Run func(by Caller, c *command.Command, cmd resp.Command) bool

// Commands are the commands of this family, by upper-case name.
func Commands() map[string]Run {
	return map[string]Run{
		"LEASH":          unknown,
		"LEASH|NODES":    guarded(toRead, nodes),
		"LEASH|SESSIONS": guarded(toList, listing(sessions)),
		"LEASH|HOLDS":    guarded(toList, listing(holds)),
		"LEASH|WAITERS":  guarded(toList, listing(waiters)),
		"LEASH|STATS":    guarded(toRead, stats),
		"LEASH|LOGLEVEL": guarded(toReadSettings, logLevel),
		"LEASH|CONFIG":   config,
		"LEASH|SLOWLOG":  guarded(toReadSlow, slowLog),
		"LEASH|DRAIN":    guarded(toEndClients, drain),
		"LEASH|HELP":     help,
	}
}

// right is a Redis command that does the like of a command of LEASH. The user must be allowed to
// run it. It has arguments with which it changes nothing.
type right []string

var (
	toRead         = right{"INFO", "leash"}
	toList         = right{"CLIENT", "LIST", "TYPE", "?"}
	toReadSettings = right{"CONFIG", "GET", "leash"}
	toReadSlow     = right{"SLOWLOG", "LEN"}
	toSet          = right{"CONFIG", "SET", "leash", "?"} // an unknown setting
	toEndClients   = right{"CLIENT", "KILL", "TYPE", "?"}
)

// guarded makes a handler that runs a command for users who have a right. Redis decides that.
func guarded(r right, run Run) Run {
	return func(by Caller, c *command.Command, cmd resp.Command) bool {
		return !by.admitted(c, cmd) || !by.Router.Permitted(r...) || run(by, c, cmd)
	}
}

// admitted makes the checks before the one for a right. If it returns false, it has answered.
func (by Caller) admitted(c *command.Command, cmd resp.Command) bool {
	switch {
	case !by.Router.Authenticated():
		by.Router.Fail(command.NoAuth)
	case !c.ArityOK(cmd.Args):
		by.Router.WrongArity(c)
	default:
		return true
	}
	return false
}

// unknown answers LEASH without a subcommand, or with an unknown one.
func unknown(by Caller, c *command.Command, cmd resp.Command) bool {
	return !by.admitted(c, cmd) || by.Router.Fail(command.UnknownSub(c, cmd.Args[1]))
}

// help answers LEASH HELP. Every user who is authenticated may run it.
func help(by Caller, c *command.Command, cmd resp.Command) bool {
	const title = "Commands for operators of Leash. Times are in milliseconds:"
	return !by.admitted(c, cmd) || by.Router.Answer(commandinfo.Help(title, by.Commands))
}

// record appends a map of names and values, which alternate. A value is a string, a list of
// strings, an integer, a bool or a duration, which becomes milliseconds.
func record(b []byte, resp3 bool, pairs ...any) []byte {
	b = resp.AppendPairs(b, resp3, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		b = resp.AppendBulk(b, pairs[i].(string))
		switch v := pairs[i+1].(type) {
		case string:
			b = resp.AppendBulk(b, v)
		case []string:
			b = resp.AppendArray(b, len(v))
			for _, text := range v {
				b = resp.AppendBulk(b, text)
			}
		case int:
			b = resp.AppendInt(b, int64(v))
		case int64:
			b = resp.AppendInt(b, v)
		case time.Duration:
			b = resp.AppendInt(b, v.Milliseconds())
		case bool:
			n := int64(0)
			if v {
				n = 1
			}
			b = resp.AppendInt(b, n)
		default:
			b = resp.AppendBulk(b, fmt.Sprint(v))
		}
	}
	return b
}
