package upstream

import (
	"strings"
	"time"

	"leash/proxy/links"
	"leash/proxy/slots"
)

// maxRedirects is how many redirects a lock script follows. The next one is its reply.
const maxRedirects = 5

// Script sends a lock script to the node of a slot, see links.Node.Script, and follows redirects.
// It returns an ASK for a script with several keys.
func (u *Upstream) Script(until time.Time, writeBy *time.Time, db int, slot slots.Slot, command,
	dst []byte) (reply []byte, sent bool, err error) {
	n, asking := u.NodeOf(slot), false
	for i := 0; ; i++ {
		if n == nil {
			return dst, false, links.ErrNoLink
		}
		reply, sent, err = n.Script(until, writeBy, db, asking, command, dst)
		own := reply[len(dst):]
		if err != nil || own[0] != '-' || i == maxRedirects {
			return reply, sent, err
		}
		r, ok := slots.ParseRedirect(own)
		if !ok || r.Ask && hasSeveralKeys(command) {
			return reply, sent, nil
		}
		n, asking = u.Target(r.Addr, n, true), r.Ask
		if !r.Ask {
			u.Moved(slot, n)
			u.Refresh()
		}
	}
}

// hasSeveralKeys reports whether a script has several keys. Such a script may also read keys that
// it does not name (rw.lua). A node that imports a slot takes those that have not moved yet for
// missing, where the old master answers an error. So a lock of readers would look free.
func hasSeveralKeys(command []byte) bool {
	words := strings.SplitN(string(command), "\r\n", 8)
	return len(words) > 7 && strings.HasPrefix(words[2], "EVAL") && words[6] != "1"
}

// Scripts sends n lock scripts to the node of a slot at once, see links.Node.Scripts. It follows no
// redirects.
func (u *Upstream) Scripts(until time.Time, db int, slot slots.Slot, n int, commands,
	dst []byte) (replies []byte, sent bool, err error) {
	node := u.NodeOf(slot)
	if node == nil {
		return dst, false, links.ErrNoLink
	}
	return node.Scripts(until, db, n, commands, dst)
}

// Alone sends n commands to the node of a slot on a connection of their own: links.Node.Alone.
func (u *Upstream) Alone(until time.Time, db int, slot slots.Slot, n int, commands,
	dst []byte) (replies []byte, sent bool, err error) {
	node := u.NodeOf(slot)
	if node == nil {
		return dst, false, links.ErrNoLink
	}
	return node.Alone(until, db, n, commands, dst)
}

// DropScriptConnections ends the connections for scripts to the node of a slot:
// links.Node.DropScripts.
func (u *Upstream) DropScriptConnections(db int, slot slots.Slot) {
	if n := u.NodeOf(slot); n != nil {
		n.DropScripts(db)
	}
}
