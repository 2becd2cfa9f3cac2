package upstream

import (
	"time"

	"leash/proxy/links"
)

// Script sends a lock script to the node of a slot: links.Node.Script.
func (u *Upstream) Script(until time.Time, writeBy *time.Time, db, slot int, command, dst []byte) (reply []byte,
	sent bool, err error) {
	n := u.Topology().Node(uint16(slot))
	if n == nil {
		return dst, false, links.ErrNoLink
	}
	return n.Script(until, writeBy, db, command, dst)
}

// Scripts sends n lock scripts to the node of a slot at once: links.Node.Scripts.
func (u *Upstream) Scripts(until time.Time, db, slot, n int, commands, dst []byte) (replies []byte, sent bool,
	err error) {
	node := u.Topology().Node(uint16(slot))
	if node == nil {
		return dst, false, links.ErrNoLink
	}
	return node.Scripts(until, db, n, commands, dst)
}

// DropScriptConnections ends the connections for scripts to the node of a slot:
// links.Node.DropScripts.
func (u *Upstream) DropScriptConnections(db, slot int) {
	if n := u.Topology().Node(uint16(slot)); n != nil {
		n.DropScripts(db)
	}
}
