package proxy

import (
	"bytes"
	"sync"

	"leash/internal/guard"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// killScript runs SCRIPT KILL and FUNCTION KILL
// (https://redis.io/docs/latest/commands/script-kill/) on every master, each on
// a connection of its own: on a link it would wait for the script to end. As on
// a connection to Redis, what the session sent before comes first.
func (s *session) killScript(c *command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	if !s.adoptTopology() || !s.barrier() {
		return false
	}
	s.Flush()
	masters := s.topology.Masters()
	replies := make([][]byte, len(masters))
	var asking sync.WaitGroup
	for i, n := range masters {
		replies[i] = resp.AppendError(nil, msgUpstreamDown) // unless it answers
		asking.Go(guard.Func(s.server.log, "kill of a script", func() { replies[i] = s.urgent(n, cmd.Raw) }))
	}
	asking.Wait()
	return s.answer(killed(replies))
}

// urgent is the reply of one node.
func (s *session) urgent(n *upstream.Node, command []byte) []byte {
	reply, err := n.Urgent(s.ctx, s.lane, command)
	if err != nil {
		s.server.log.Warn("cannot kill a script", "session", s.id, "err", err)
		return resp.AppendError(nil, msgUpstreamDown)
	}
	return reply
}

// killed merges the masters' replies. Errors about an unkillable script or an unreachable node come
// first, then success, then the error that no script runs.
func killed(replies [][]byte) []byte {
	var whole []byte
	for _, r := range replies {
		switch {
		case bytes.HasPrefix(r, []byte("-UNKILLABLE ")):
			return r
		case whole == nil, bytes.HasPrefix(whole, []byte("-NOTBUSY ")), whole[0] == '+' && r[0] == '-' && !bytes.HasPrefix(r, []byte("-NOTBUSY ")):
			whole = r
		}
	}
	if whole == nil {
		return resp.AppendError(nil, msgSlotUnserved)
	}
	return whole
}
