package proxy

import (
	"maps"
	"strings"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/commandinfo"
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
	command.Pinned:    (*session).block,
	command.Refused:   onRouter((*route.Router).Refuse),
	command.LeashOnly: (*session).lock,
}

// handlersOf returns the handlers of a table's commands, by their index.
func handlersOf(t command.Table) []handler {
	own := handlers{}
	for _, family := range []handlers{
		blockingHandlers(),
		clientHandlers(),
		clusterHandlers(),
		commandInfoHandlers(),
		connectionHandlers(),
		infoHandlers(),
		masterHandlers(),
		monitorHandlers(),
		operatorHandlers(),
		pubsubHandlers(),
		scriptHandlers(),
		slowlogHandlers(),
		subscriptionHandlers(),
		trackingHandlers(),
		transactionHandlers(),
	} {
		maps.Copy(own, family)
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

// commandInfoHandlers are COMMAND and its subcommands.
func commandInfoHandlers() handlers {
	all := handlers{}
	for name, run := range commandinfo.Commands() {
		all[name] = func(s *session, c *command.Command, cmd resp.Command) bool {
			v := commandinfo.View{Router: &s.router, Table: s.server.commands, RESP3: s.router.Lane.RESP3}
			return !s.router.Ready(c, cmd) || run(v, c, cmd)
		}
	}
	return all
}

// scriptHandlers are the commands for scripts.
func scriptHandlers() handlers {
	all := handlers{}
	for name, run := range scripts.Commands() {
		all[name] = func(s *session, c *command.Command, cmd resp.Command) bool {
			return run(&s.router, &s.server.scripts, c, cmd)
		}
	}
	return all
}

// operatorHandlers are the commands of LEASH.
func operatorHandlers() handlers {
	all := handlers{}
	for name, run := range operators.Commands() {
		all[name] = func(s *session, c *command.Command, cmd resp.Command) bool {
			s.updateDescription()
			by := operators.Caller{Leash: &s.server.leash, Router: &s.router, Client: s.clientName(), User: s.user()}
			return run(by, c, cmd)
		}
	}
	return all
}

// pubsubHandlers are the subcommands of PUBSUB.
func pubsubHandlers() handlers {
	all := handlers{}
	for name, run := range subscribers.Commands() {
		all["PUBSUB|"+name] = func(s *session, c *command.Command, cmd resp.Command) bool {
			if !c.ArityOK(cmd.Args) {
				return s.router.WrongArity(c)
			}
			return run(&s.router, s.server.exchange, cmd)
		}
	}
	return all
}

// relayAny sends a command to the node that serves the session's commands without keys.
func relayAny(s *session, _ *command.Command, cmd resp.Command) bool { return s.router.RelayAny(cmd) }

// split sends a command to the nodes of its keys.
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
