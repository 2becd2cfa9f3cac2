package scripts

import (
	"bytes"
	"sync"

	"leash/internal/guard"
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// kill runs SCRIPT KILL and FUNCTION KILL
// (https://redis.io/docs/latest/commands/script-kill/) on every master. It uses a new connection to
// each. On a link, the command would wait for the script to end. As in Redis, the session's earlier
// commands are executed first.
func kill(r *route.Router, _ *Seen, c *command.Command, cmd resp.Command) bool {
	if !r.Ready(c, cmd) {
		return true
	}
	if !r.AdoptTopology() || !r.Barrier() {
		return false
	}
	r.Out.Flush()
	masters := r.Topology().Masters()
	replies := make([][]byte, len(masters))
	var asking sync.WaitGroup
	for i, n := range masters {
		replies[i] = resp.AppendError(nil, merge.NotSent) // replaced by the node's reply
		asking.Go(guard.Func(r.Log, "kill of a script", func() { replies[i] = urgent(r, n, cmd.Raw) }))
	}
	asking.Wait()
	return r.Answer(killed(replies))
}

// urgent sends a command to one node and returns its reply.
func urgent(r *route.Router, n *links.Node, command []byte) []byte {
	reply, err := n.Urgent(r.Context, r.Lane, command)
	if err != nil {
		r.Log.Warn("cannot kill a script", "session", r.ID, "err", err)
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
