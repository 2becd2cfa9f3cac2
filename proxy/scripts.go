package proxy

import (
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// scriptHandlers are the commands for scripts and functions. Each node of a cluster has its own
// scripts. So Leash makes changes on every master, and every node finds a script.
func scriptHandlers() handlers {
	return handlers{
		"EVAL":    (*session).eval,
		"EVAL_RO": (*session).eval,

		"SCRIPT|LOAD":   (*session).scriptLoad,
		"SCRIPT|FLUSH":  (*session).scriptFlush,
		"SCRIPT|EXISTS": everyMaster(merge.Least),
		"SCRIPT|KILL":   (*session).killScript,

		"FUNCTION|LOAD":    everyMaster(merge.First),
		"FUNCTION|DELETE":  everyMaster(merge.First),
		"FUNCTION|FLUSH":   everyMaster(merge.First),
		"FUNCTION|RESTORE": everyMaster(merge.First),
		"FUNCTION|KILL":    (*session).killScript,
	}
}

// eval relays EVAL and EVAL_RO. It keeps the script for an EVALSHA that comes to a node without it.
// Redis does not keep a script that came with a wrong number of keys, and neither does Leash.
func (s *session) eval(c *command.Command, cmd resp.Command) bool {
	if len(cmd.Args) > 2 && s.router.Authenticated() {
		if n, ok := resp.ParseInt(cmd.Args[2]); ok && n >= 0 && n <= int64(len(cmd.Args)-3) {
			s.server.scripts.run.add(cmd.Args[1])
		}
	}
	return s.router.Relay(c, cmd)
}

// scriptLoad loads a script on every master. Leash keeps the script before Redis has answered: two
// replies may be merged at the same time, and a SCRIPT FLUSH that was sent later removes the
// script.
func (s *session) scriptLoad(c *command.Command, cmd resp.Command) bool {
	if !c.ArityOK(cmd.Args) {
		return s.router.WrongArity(c)
	}
	if s.router.Authenticated() {
		s.server.scripts.loaded.add(cmd.Args[2])
	}
	return s.router.Everywhere(cmd, merge.First)
}

// scriptFlush removes the scripts, also from Leash's cache. No later command is sent before its
// reply, so a later EVALSHA finds no script.
func (s *session) scriptFlush(_ *command.Command, cmd resp.Command) bool {
	ok := s.router.Everywhere(cmd, func(replies []*merge.Reply) (merge.Reply, bool) {
		s.server.scripts.clear()
		return merge.First(replies)
	})
	return ok && s.router.Barrier()
}
