package proxy

import (
	"leash/proxy/command"
	"leash/proxy/masters"
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// masterHandlers are the commands that run on every master, and SCAN.
func masterHandlers() handlers {
	all := handlers{"SCAN": scanKeys}
	for name, run := range masters.Commands() {
		all[name] = onRouter(run)
	}
	return all
}

// onRouter makes a handler of a function that needs nothing of the session but its router.
func onRouter(run masters.Run) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool { return run(&s.router, c, cmd) }
}

// everyMaster is the handler of a command that runs on every master.
func everyMaster(m merge.Func) handler { return onRouter(masters.Every(m)) }

// scanKeys runs SCAN, on a cluster over all masters.
func scanKeys(s *session, c *command.Command, cmd resp.Command) bool {
	if !s.router.OnCluster() || !c.ArityOK(cmd.Args) || !s.router.Authenticated() {
		return s.router.RelayAny(cmd)
	}
	return s.server.scans.Scan(&s.router, cmd)
}
