package links

import (
	"context"

	"leash/proxy/dial"
	"leash/proxy/resp"
)

// Busy reports whether the node ran a slow script when it last answered. BusyReply asks it.
func (n *Node) Busy() bool { return n.busy.Load() }

// AnyBusy reports whether a node is Busy. It takes no lock.
func (ns *Nodes) AnyBusy() bool { return ns.busy.Load() > 0 }

// notePing handles the node's reply to a PING. nil means that there is no connection for the PING.
// A refusal for missing rights says nothing about BUSY, because Redis checks rights first.
func (n *Node) notePing(reply []byte) {
	if resp.HasCode(reply, "NOAUTH") || resp.HasCode(reply, "NOPERM") {
		return
	}
	busy := resp.HasCode(reply, "BUSY")
	if n.busy.Swap(busy) == busy {
		return
	}
	if busy {
		n.nodes.busy.Add(1)
	} else {
		n.nodes.busy.Add(-1)
	}
}

// BusyReply returns the node's BUSY error while it runs a slow script. It returns nil if the node
// runs none or cannot be asked. It blocks for a round trip.
func (n *Node) BusyReply(ctx context.Context) []byte {
	ctx, cancel := context.WithTimeout(ctx, dial.AskTimeout)
	defer cancel()
	lane := n.nodes.Dialer.ServiceLane()
	reply, err := n.secondLink(lane, n.Link(lane)).ask(ctx, dial.PingRequest, 1)
	if err != nil {
		return nil
	}
	n.notePing(reply)
	if !n.Busy() {
		return nil
	}
	return reply
}
