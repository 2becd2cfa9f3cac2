package route

import (
	"leash/proxy/call"
	"leash/proxy/links"
	"leash/proxy/resp"
)

// Split sends a command that how can split. It sends the command whole if all keys have one slot or
// if there is no cluster. Otherwise it splits the command by slot.
func (r *Router) Split(how call.Splitting, cmd resp.Command) bool {
	if !r.AdoptTopology() {
		return false
	}
	slot, one := how.SameSlot(cmd.Args)
	if one || !r.topology.Cluster() {
		return r.RelayKeys(cmd, slot, how.Keys(cmd.Args) > 1)
	}
	parts := how.BySlot(cmd.Args)
	to := make([]*links.Node, len(parts))
	moving := false
	for i, p := range parts {
		moving = moving || p.HasManyKeys() && r.Up.SlotsMoving()
		link, ok := r.linkOf(p.Slot())
		if link == nil && ok {
			continue
		}
		if !ok || !r.awaitLink(link) {
			return false
		}
		to[i] = link.Node()
		p.UseReplica(link.ReadsReplica())
	}
	ok := r.FanOut(parts, to, len(cmd.Raw), how.Merge)
	if ok && moving {
		return r.Barrier() // a part may have to be split by key
	}
	return ok
}
