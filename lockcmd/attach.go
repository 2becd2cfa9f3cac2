package lockcmd

import (
	"context"

	"leash/lockcmd/acquire"
)

const attachName = "LOCK.ATTACH"

// attach runs LOCK.ATTACH: this connection becomes the carrier of a hold of any connection and any
// Leash.
func (c *Carrier) attach(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	key, o, msg := s.parse(attachName, args, attachWords)
	switch {
	case msg != "":
		return appendError(dst, msg)
	case o.Owner == "" || o.Token == 0:
		return appendError(dst, msgSyntax)
	case c.grantsNothing():
		return appendError(dst, msgDraining)
	}
	until := s.deadline()
	switch r := c.MoveHere(c.id(key), o.Selector, until); {
	case r.Took():
		return appendInt(dst, r.Token)
	case r.Kind == acquire.Absent:
		return c.replyAbsent(dst, key, o, until)
	case r.Kind == acquire.Unknown:
		return c.timeout(dst, msgAttachLater)
	default:
		return c.replyTaken(dst, r, "")
	}
}
