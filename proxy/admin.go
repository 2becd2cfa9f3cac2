package proxy

import (
	"fmt"
	"time"

	"leash/proxy/command"
	"leash/proxy/commandinfo"
	"leash/proxy/resp"
)

// adminHandlers are LEASH and its commands for operators. Each of them is about this Leash alone,
// and is answered from memory.
func adminHandlers() handlers {
	return handlers{
		"LEASH":          (*session).adminUnknown,
		"LEASH|NODES":    guarded(toRead, (*session).adminNodes),
		"LEASH|SESSIONS": guarded(toList, listing((*session).adminSessions)),
		"LEASH|HOLDS":    guarded(toList, listing((*session).adminHolds)),
		"LEASH|WAITERS":  guarded(toList, listing((*session).adminWaiters)),
		"LEASH|STATS":    guarded(toRead, (*session).adminStats),
		"LEASH|LOGLEVEL": guarded(toReadSettings, (*session).adminLogLevel),
		"LEASH|CONFIG":   (*session).adminConfig,
		"LEASH|SLOWLOG":  guarded(toReadSlow, (*session).adminSlowlog),
		"LEASH|DRAIN":    guarded(toEndClients, (*session).adminDrain),
		"LEASH|HELP":     (*session).adminHelp,
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
func guarded(r right, run handler) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool {
		switch {
		case !s.router.Authenticated():
			return s.fail(command.NoAuth)
		case !c.ArityOK(cmd.Args):
			return s.router.WrongArity(c)
		case !s.router.Permitted(r...):
			return true
		}
		return run(s, c, cmd)
	}
}

// adminUnknown answers LEASH without a subcommand, or with an unknown one.
func (s *session) adminUnknown(c *command.Command, cmd resp.Command) bool {
	switch {
	case !s.router.Authenticated():
		return s.fail(command.NoAuth)
	case len(cmd.Args) < 2:
		return s.router.WrongArity(c)
	}
	return s.fail(command.UnknownSub(c, cmd.Args[1]))
}

// adminHelp answers LEASH HELP. Every user who is authenticated may run it.
func (s *session) adminHelp(c *command.Command, cmd resp.Command) bool {
	switch {
	case !s.router.Authenticated():
		return s.fail(command.NoAuth)
	case !c.ArityOK(cmd.Args):
		return s.router.WrongArity(c)
	}
	return s.answer(commandinfo.Help("Commands for operators of Leash. Times are in milliseconds:",
		s.server.commands["LEASH"].Own.Subs))
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
