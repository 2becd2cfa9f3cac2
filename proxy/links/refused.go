package links

import "leash/proxy/dial"

// refusedAnew records why a connection was refused. It returns false if the last one was refused
// for the same reason.
func (n *Node) refusedAnew(reason string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	same := dial.SameReason(n.refusal, reason)
	n.refusal = reason
	return !same
}

// accepted records that there is a new connection.
func (n *Node) accepted() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusal = ""
}
