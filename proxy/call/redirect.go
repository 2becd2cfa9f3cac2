package call

import (
	"bytes"

	"leash/proxy/resp"
	"leash/proxy/slots"
)

// MaxHops limits how often one search for a command's node follows the topology.
const MaxHops = 16

// Redis's texts for errors that may end soon. Only these exact texts come from Redis. A script that
// answers TRYAGAIN with another text has run, so Leash does not send it again.
const (
	TryAgain = "TRYAGAIN Multiple keys request during rehashing of slot"
	// may be followed by " and only accepts read commands"
	clusterDown = "CLUSTERDOWN The cluster is down"
	// a replica's answer to a command that writes; the command has not run
	readOnly = "-READONLY You can't write against a read only replica.\r\n"
)

// incidentOf returns what an error reply means. After a redirect, Leash reads the topology again.
func (p *Part) incidentOf(b []byte) trouble {
	switch {
	case p.replica:
		return p.readerIncident(b)
	case string(b) == noScript, string(b) == noScriptOfValkey:
		return trouble{incident: noScriptYet}
	}
	server := p.call.queue.server
	switch {
	case !server.Nodes.Cluster():
		// a script can answer READONLY itself, after it has written
		if p.fixed || server.Nodes.Mode() != "sentinel" || string(b) != readOnly || !p.trusted() {
			return trouble{}
		}
		return trouble{incident: demotion}
	case p.slot == slots.Any, p.fixed:
		return trouble{}
	}
	return p.slotIncident(b)
}

// slotIncident returns what the error of a node of a cluster means for a part with a slot.
func (p *Part) slotIncident(b []byte) trouble {
	server := p.call.queue.server
	p.call.queue.session.Refused(resp.Code(b))
	if r, ok := slots.ParseRedirect(b); ok && r.Slot == p.slot {
		return p.redirectTo(r.Addr, r.Ask)
	}
	message := bytes.TrimSpace(b[1:])
	switch {
	case string(message) == TryAgain:
		server.Nodes.NoteMoving()
		return trouble{incident: partlyMoved}
	case string(message) == ErrorUnserved, bytes.HasPrefix(message, []byte(clusterDown)):
		return trouble{incident: slotDown}
	}
	return trouble{}
}

// redirectTo returns what a redirect means. A client's script can return such an error itself. So
// an untrusted redirect counts only for nodes that the cluster has named, and only for this
// command. A client must not send other clients' commands or a user's password to a server of its
// choice.
//
// The first redirect is followed at once. Later commands of the session on the slot are redirected
// too, and follow in order. A second redirect means that nodes disagree. Then the part is sent
// again only if the session's order stays the same.
func (p *Part) redirectTo(addr string, ask bool) trouble {
	server := p.call.queue.server
	nodes := server.Nodes
	trusted := p.trusted()
	n := nodes.Target(addr, p.node, trusted)
	nodes.Refresh()
	if trusted {
		nodes.NoteMoving()
	}
	t := trouble{incident: redirection, message: ErrorUnserved, node: n, asking: ask}
	p.hops++
	switch {
	case p.hops > MaxHops:
		t.incident = endless
	case n == nil, p.hops > 1 && !ask:
		t.incident = disagreement
	case !ask && trusted:
		nodes.Moved(p.slot, n)
	}
	return t
}

// readerIncident returns what a replica's error means.
func (p *Part) readerIncident(b []byte) trouble {
	switch code := string(resp.Code(b)); {
	case slots.IsRefusal(b):
		p.call.queue.server.Nodes.Refresh()
	case code == "LOADING", code == "MASTERDOWN":
		p.node.Unfit()
	case code == "BUSY", code == "NOAUTH", code == "NOPERM":
	default:
		return trouble{}
	}
	return trouble{incident: noReader, message: ErrorUnserved}
}

// trusted reports whether the error can only come from Redis. A script can return any error.
func (p *Part) trusted() bool {
	c, _ := p.call.queue.server.lookup(p.Command)
	return c != nil && c.Trusted
}
