package proxy

import (
	"bytes"
	"sync"

	"leash/internal/guard"
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// killScript runs SCRIPT KILL and FUNCTION KILL
// (https://redis.io/docs/latest/commands/script-kill/) on every master. It uses a new connection to
// each. On a link, the command would wait for the script to end. As in Redis, the session's earlier
// commands are executed first.
func (s *session) killScript(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) {
		return true
	}
	if !s.router.AdoptTopology() || !s.router.Barrier() {
		return false
	}
	s.out.Flush()
	masters := s.router.Topology().Masters()
	replies := make([][]byte, len(masters))
	var asking sync.WaitGroup
	for i, n := range masters {
		replies[i] = resp.AppendError(nil, merge.NotSent) // replaced by the node's reply
		asking.Go(guard.Func(s.server.log, "kill of a script", func() { replies[i] = s.urgent(n, cmd.Raw) }))
	}
	asking.Wait()
	return s.answer(killed(replies))
}

// urgent sends a command to one node and returns its reply.
func (s *session) urgent(n *upstream.Node, command []byte) []byte {
	reply, err := n.Urgent(s.ctx, s.router.Lane, command)
	if err != nil {
		s.server.log.Warn("cannot kill a script", "session", s.id, "err", err)
		return resp.AppendError(nil, merge.NotSent)
	}
	return reply
}

// killed merges the masters' replies. It returns the first of these that exists: the error that a
// script cannot be killed, another error such as an unreachable node, a success, the error that no
// script runs.
func killed(replies [][]byte) []byte {
	var whole []byte
	for _, r := range replies {
		switch {
		case bytes.HasPrefix(r, []byte("-UNKILLABLE ")):
			return r
		case whole == nil, bytes.HasPrefix(whole, []byte("-NOTBUSY ")),
			whole[0] == '+' && r[0] == '-' && !bytes.HasPrefix(r, []byte("-NOTBUSY ")):
			whole = r
		}
	}
	if whole == nil {
		return resp.AppendError(nil, call.ErrorUnserved)
	}
	return whole
}
