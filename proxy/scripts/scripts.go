// Package scripts is the commands for scripts, such as EVAL and SCRIPT LOAD. Each node of a cluster
// has its own scripts. So Leash makes changes on every master, and keeps what clients have sent:
// every node finds a script.
package scripts

import (
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// Run answers a command c of this family. It checks the user's right to it, or lets Redis do so. It
// returns false when the session ends.
type Run func(r *route.Router, seen *Seen, c *command.Command, cmd resp.Command) bool

// Commands are the commands of this family, by upper-case name.
func Commands() map[string]Run {
	return map[string]Run{
		"EVAL":    eval,
		"EVAL_RO": eval,

		"SCRIPT|LOAD":  load,
		"SCRIPT|FLUSH": flush,
		"SCRIPT|KILL":  kill,

		"FUNCTION|KILL": kill,
	}
}

// eval relays EVAL and EVAL_RO. It keeps the script for an EVALSHA that comes to a node without it.
// Redis does not keep a script that came with a wrong number of keys, and neither does Leash.
func eval(r *route.Router, seen *Seen, c *command.Command, cmd resp.Command) bool {
	if r.Authenticated() {
		seen.Ran(cmd)
	}
	return r.Relay(c, cmd)
}

// Ran keeps the script of an EVAL or EVAL_RO.
func (s *Seen) Ran(cmd resp.Command) {
	if len(cmd.Args) > 2 {
		if n, ok := resp.ParseInt(cmd.Args[2]); ok && n >= 0 && n <= int64(len(cmd.Args)-3) {
			s.run.add(cmd.Args[1])
		}
	}
}

// load loads a script on every master. Leash keeps the script before Redis has answered: two
// replies may be merged at the same time, and a SCRIPT FLUSH that was sent later removes the
// script.
func load(r *route.Router, seen *Seen, c *command.Command, cmd resp.Command) bool {
	if !c.ArityOK(cmd.Args) {
		return r.WrongArity(c)
	}
	if r.Authenticated() {
		seen.loaded.add(cmd.Args[2])
	}
	return r.Everywhere(cmd, merge.First)
}

// flush removes the scripts, also from Leash's cache. No later command is sent before its
// reply, so a later EVALSHA finds no script.
func flush(r *route.Router, seen *Seen, _ *command.Command, cmd resp.Command) bool {
	ok := r.Everywhere(cmd, func(replies []*merge.Reply) (merge.Reply, bool) {
		seen.Clear()
		return merge.First(replies)
	})
	return ok && r.Barrier()
}
