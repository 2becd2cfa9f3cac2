package links

import "strings"

// refusedAnew records why a connection was refused. It returns false if the last one was refused
// for the same reason. Digits do not count, because some reasons have the time in them.
func (n *Node) refusedAnew(reason string) bool {
	reason = strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, reason)
	n.mu.Lock()
	defer n.mu.Unlock()
	same := n.refusal == reason
	n.refusal = reason
	return !same
}

// accepted records that there is a new connection.
func (n *Node) accepted() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusal = ""
}
