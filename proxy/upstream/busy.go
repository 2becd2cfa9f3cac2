package upstream

import "context"

// Busy reports whether the node runs a script that takes long, as far as is
// known: it said so last. BusyReply asks it.
func (n *Node) Busy() bool { return n.busy.Load() }

// AnyBusy reports whether a node is Busy. It takes no lock.
func (u *Upstream) AnyBusy() bool { return u.busy.Load() > 0 }

// heard takes note of what the node has said to a PING; nil says that it cannot
// be asked. A refusal for missing rights comes before BUSY and says nothing.
func (n *Node) heard(reply []byte) {
	if hasCode(reply, "NOAUTH") || hasCode(reply, "NOPERM") {
		return
	}
	busy := hasCode(reply, "BUSY")
	if n.busy.Swap(busy) == busy {
		return
	}
	if busy {
		n.up.busy.Add(1)
	} else {
		n.up.busy.Add(-1)
	}
}

// BusyReply is what the node says to a command while it runs a script that takes
// long; nil when it runs none, or cannot be asked. It blocks for a round trip.
func (n *Node) BusyReply(ctx context.Context) []byte {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	lane := n.up.ServiceLane()
	reply, err := n.secondLink(lane, n.Link(lane)).ask(ctx, pingRequest)
	if err != nil {
		return nil
	}
	n.heard(reply)
	if !n.Busy() {
		return nil
	}
	return reply
}
