package upstream

import (
	"time"

	"leash/proxy/links"
	"leash/proxy/slots"
)

// Script sends a lock script to the node of a slot: links.Node.Script.
func (u *Upstream) Script(until time.Time, writeBy *time.Time, db int, slot slots.Slot, command,
	dst []byte) (reply []byte, sent bool, err error) {
	n := u.Topology().Node(slot)
	if n == nil {
		return dst, false, links.ErrNoLink
	}
	return n.Script(until, writeBy, db, command, dst)
}

// Scripts sends n lock scripts to the node of a slot at once: links.Node.Scripts.
func (u *Upstream) Scripts(until time.Time, db int, slot slots.Slot, n int, commands,
	dst []byte) (replies []byte, sent bool, err error) {
	node := u.Topology().Node(slot)
	if node == nil {
		return dst, false, links.ErrNoLink
	}
	return node.Scripts(until, db, n, commands, dst)
}

// DropScriptConnections ends the connections for scripts to the node of a slot:
// links.Node.DropScripts.
func (u *Upstream) DropScriptConnections(db int, slot slots.Slot) {
	if n := u.Topology().Node(slot); n != nil {
		n.DropScripts(db)
	}
}
