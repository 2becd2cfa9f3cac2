package route

import (
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

// allowedWhileBusy are the commands that Redis runs while a slow script runs. Redis's command table
// marks them with the flag allow-busy. All others get BUSY.
var allowedWhileBusy = map[string]bool{
	"auth": true, "discard": true, "function|kill": true, "function|stats": true, "hello": true, "multi": true,
	"quit": true, "replconf": true,
	"reset": true, "script|kill": true, "shutdown": true, "unwatch": true, "watch": true,
}

// BusyReply returns Redis's BUSY error if the node runs a slow script, and nil otherwise. It is for
// commands that Leash answers itself. Leash asks Redis each time, so the error is never out of
// date.
func (r *Router) BusyReply(c *command.Command, cmd resp.Command) []byte {
	node := r.busyNode(c, cmd)
	if node == nil || !r.Authenticated() || !r.Barrier() {
		return nil
	}
	return node.BusyReply(r.Context)
}

// busyNode returns the busy node that would run the command, or nil if there is none.
func (r *Router) busyNode(c *command.Command, cmd resp.Command) *links.Node {
	t := r.Up.Topology()
	switch {
	case c == nil || !c.ArityOK(cmd.Args):
	case c.Own != nil:
		for _, key := range c.Own.KeysOf(cmd.Args) {
			if n := t.Node(slots.Of(key)); n != nil && n.Busy() {
				return n
			}
		}
	case c.Class != command.Answered && c.Class != command.Subscriber, allowedWhileBusy[c.Name]:
	case t.Cluster(): // Leash answers for all nodes, and the others may not be busy
	default:
		if n := t.Node(0); n != nil && n.Busy() {
			return n
		}
	}
	return nil
}
