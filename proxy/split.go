package proxy

import (
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// split runs a command that call.SplittingOf knows. It sends the command whole if all keys have one
// slot or if there is no cluster. Otherwise it splits the command by slot.
func (s *session) split(c *command.Command, cmd resp.Command) bool {
	how, _ := call.SplittingOf(c.Name)
	if !c.ArityOK(cmd.Args) || !how.Complete(cmd.Args) {
		return s.wrongArity(c)
	}
	if !s.adoptTopology() {
		return false
	}
	slot, one := how.SameSlot(cmd.Args)
	if one || !s.topology.Cluster() {
		return s.relayKeys(cmd, slot, how.Keys(cmd.Args) > 1)
	}
	if !s.calls.Admit(len(cmd.Raw)) {
		return false
	}
	parts := how.BySlot(cmd.Args)
	to := make([]*upstream.Node, len(parts))
	resharding := false
	for i, p := range parts {
		resharding = resharding || p.HasManyKeys() && s.server.relaying.Resharding.Is()
		link, ok := s.linkOf(p.Slot())
		if link == nil && ok {
			continue
		}
		if !ok || !s.awaitLink(link) {
			return false
		}
		to[i] = link.Node()
		p.UseReplica(link.ReadsReplica())
	}
	ok := s.fanOut(parts, to, len(cmd.Raw), how.Merge)
	if ok && resharding {
		return s.barrier() // a part may have to be split by key
	}
	return ok
}
