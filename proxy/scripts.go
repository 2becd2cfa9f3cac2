package proxy

import (
	"bytes"

	"leash/proxy/merge"
	"leash/proxy/resp"
)

// scriptSpecs are the commands for scripts and functions. Each node of a cluster has its own
// scripts. So Leash makes changes on every master, and every node finds a script.
func scriptSpecs() commandSpecs {
	const fresh = "sent on a new connection, because the script blocks the shared one"
	return commandSpecs{
		"EVAL": {(*session).eval, relayed, ""}, "EVAL_RO": {(*session).eval, relayed, ""},
		"EVALSHA": {(*session).relay, relayed, reloadNote}, "EVALSHA_RO": {(*session).relay, relayed, reloadNote},
		"FCALL": {(*session).relay, relayed, ""}, "FCALL_RO": {(*session).relay, relayed, ""},

		"SCRIPT|LOAD": {(*session).scriptLoad, everyNode, ""}, "SCRIPT|FLUSH": {(*session).scriptFlush, everyNode, ""},
		"SCRIPT|EXISTS": {everyMaster(merge.Least), everyNode, "1 if every master has the script"},
		"SCRIPT|KILL":   {(*session).killScript, everyNode, fresh},
		"SCRIPT|DEBUG":  {(*session).refuse, refused, "it would stop a connection that other clients share"},

		"FUNCTION|LOAD": {everyMaster(merge.First), everyNode, ""}, "FUNCTION|DELETE": {everyMaster(merge.First), everyNode, ""},
		"FUNCTION|FLUSH": {everyMaster(merge.First), everyNode, ""}, "FUNCTION|RESTORE": {everyMaster(merge.First), everyNode, ""},
		"FUNCTION|LIST": {(*session).relayAny, anyNode, ""}, "FUNCTION|DUMP": {(*session).relayAny, anyNode, ""},
		"FUNCTION|STATS": {(*session).relayAny, anyNode, ""}, "FUNCTION|KILL": {(*session).killScript, everyNode, fresh},
	}
}

const reloadNote = "if the node has lost a script that Leash has seen, Leash loads it again"

// eval relays EVAL and EVAL_RO. It keeps the script for an EVALSHA that comes to a node without it.
// Redis does not keep a script that came with a wrong number of keys, and neither does Leash.
func (s *session) eval(c *command, cmd resp.Command) bool {
	if len(cmd.Args) > 2 && s.authenticated() {
		if n, ok := resp.ParseInt(cmd.Args[2]); ok && n >= 0 && n <= int64(len(cmd.Args)-3) {
			s.server.scripts.run.add(cmd.Args[1])
		}
	}
	return s.relay(c, cmd)
}

// scriptLoad loads a script on every master.
func (s *session) scriptLoad(c *command, cmd resp.Command) bool {
	if !c.arityOK(cmd.Args) {
		return s.wrongArity(c)
	}
	text := bytes.Clone(cmd.Args[2])
	return s.everywhere(cmd, func(replies []*merge.Reply) (merge.Reply, bool) {
		s.server.scripts.loaded.add(text)
		return merge.First(replies)
	})
}

// scriptFlush removes the scripts, also from Leash's cache. No later command is sent before its
// reply, so a later EVALSHA finds no script.
func (s *session) scriptFlush(_ *command, cmd resp.Command) bool {
	ok := s.everywhere(cmd, func(replies []*merge.Reply) (merge.Reply, bool) {
		s.server.scripts.clear()
		return merge.First(replies)
	})
	return ok && s.barrier()
}
