package proxy

import (
	"maps"
	"strings"

	"leash/proxy/blocking"
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/commandinfo"
	"leash/proxy/ending"
	"leash/proxy/masters"
	"leash/proxy/operators"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/scripts"
	"leash/proxy/subscribers"
)

// handler runs one command of a session. It returns false when the session ends.
type handler func(s *session, c *command.Command, cmd resp.Command) bool

// handlers are functions for commands, by upper-case name, such as "CLIENT|ID".
type handlers map[string]handler

// classHandlers run the commands that have no handler of their own, by class.
var classHandlers = map[command.Class]handler{
	command.Relayed:   onRouter((*route.Router).Relay),
	command.AnyNode:   relayAny,
	command.SplitUp:   split,
	command.Pinned:    onBlocking(blocking.Block),
	command.Refused:   onRouter((*route.Router).Refuse),
	command.LeashOnly: lock,
}

var relayIfOneReply = onRouter((*route.Router).RelayIfOneReply)

// handlersOf returns the handlers of a table's commands, by their index.
func handlersOf(t command.Table) []handler {
	own := handlers{}
	for _, some := range []handlers{
		clientHandlers(),
		clusterHandlers(t),
		connectionHandlers(),
		subscriptionHandlers(),
		trackingHandlers(),
		transactionHandlers(),
		family("", blocking.Commands(), onBlocking),
		family("", commandinfo.Commands(), onCommandInfo),
		family("", masters.Commands(), onRouter),
		family("", operators.Commands(), onOperators),
		family("", scripts.Commands(), onScripts),
		family("PUBSUB|", subscribers.Commands(), onPubsub),
		{"INFO": showInfo, "MONITOR": ready(startMonitor), "SCAN": scanKeys},
		{"SET": relayIfOneReply, "FUNCTION|LIST": relayIfOneReply},
	} {
		maps.Copy(own, some)
	}
	all := t.All()
	run := make([]handler, len(all))
	for _, c := range all {
		run[c.Index] = own[strings.ToUpper(c.Name)]
		if run[c.Index] == nil {
			run[c.Index] = classHandlers[c.Class]
		}
		if run[c.Index] == nil {
			panic("proxy: no handler for the command " + c.Name)
		}
	}
	return run
}

// family makes handlers of the commands of a package. as makes a handler of one of its functions.
func family[R any](prefix string, commands map[string]R, as func(run R) handler) handlers {
	all := make(handlers, len(commands))
	for name, run := range commands {
		all[prefix+name] = as(run)
	}
	return all
}

// ready makes a handler that runs only if Redis's checks allow it (Router.Ready).
func ready(run handler) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool {
		return !s.router.Ready(c, cmd) || run(s, c, cmd)
	}
}

// onBlocking makes a handler of a function that may make the session wait.
func onBlocking(run blocking.Run) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool { return run(s.blocking(), c, cmd) }
}

// onCommandInfo makes a handler of COMMAND or one of its subcommands.
func onCommandInfo(run commandinfo.Run) handler {
	return ready(func(s *session, c *command.Command, cmd resp.Command) bool {
		return run(commandinfo.View{Router: &s.router, Table: s.server.commands, RESP3: s.router.Lane.RESP3}, c, cmd)
	})
}

func onScripts(run scripts.Run) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool {
		return run(&s.router, &s.server.scripts, c, cmd)
	}
}

func onOperators(run operators.Run) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool {
		s.updateDescription()
		by := operators.Caller{Leash: &s.server.leash, Router: &s.router, Client: s.clientName(), User: s.user()}
		return run(by, c, cmd)
	}
}

func onPubsub(run subscribers.Run) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool {
		if !c.ArityOK(cmd.Args) {
			return s.router.WrongArity(c)
		}
		return run(&s.router, s.server.exchange, cmd)
	}
}

// relayAny sends a command to the node that serves the session's commands without keys.
func relayAny(s *session, _ *command.Command, cmd resp.Command) bool { return s.router.RelayAny(cmd) }

func split(s *session, c *command.Command, cmd resp.Command) bool {
	how, _ := call.SplittingOf(c.Name)
	if !c.ArityOK(cmd.Args) || !how.Complete(cmd.Args) {
		return s.router.WrongArity(c)
	}
	return s.router.Split(how, cmd)
}

// run runs one command of a session. It returns false when the session ends.
func (s *session) run(c *command.Command, cmd resp.Command) bool {
	return s.server.handlers[c.Index](s, c, cmd)
}

// onRouter makes a handler of a function that needs nothing of the session but its router.
func onRouter(run masters.Run) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool { return run(&s.router, c, cmd) }
}

func scanKeys(s *session, c *command.Command, cmd resp.Command) bool {
	if !s.router.Up.Cluster() || !c.ArityOK(cmd.Args) || !s.router.Authenticated() {
		return s.router.RelayAny(cmd)
	}
	return s.server.scans.Scan(&s.router, cmd)
}

// NotReady is the reply to clients before the upstream is known.
const NotReady = "-UPSTREAMDOWN Leash waits for Redis, the command was not executed\r\n"

// unknown answers a command that is in no table, in Redis's words. Leash does not send it to Redis.
// The server may know it under another name or in a newer version, and it may do anything to a
// shared link. A word of HTTP ends the session, as in Redis. A web page could otherwise use a
// browser to send commands to this port.
func (s *session) unknown(cmd resp.Command) bool {
	if command.IsHTTP(cmd.Args[0]) {
		s.server.log.Warn("possible attack: a client sent an HTTP request, closing it", "client", s.conn.RemoteAddr())
		s.end.Set(ending.Refused)
		return false
	}
	return s.router.Fail(command.Unknown(cmd.Args))
}
