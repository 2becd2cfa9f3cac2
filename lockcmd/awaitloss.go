package lockcmd

import (
	"cmp"
	"context"
	"errors"

	"leash/internal/guard"
	"leash/lockcmd/script"
)

const awaitLossName = "LOCK.AWAITLOSS"

// awaitLoss runs LOCK.AWAITLOSS: it waits until the hold with a token is lost, on whatever
// connection and Leash it is. A regular end of the hold ends the wait too.
func (c *Carrier) awaitLoss(ctx context.Context, dst []byte, args [][]byte) []byte {
	if len(args) != 6 {
		return appendError(dst, msgArity(awaitLossName))
	}
	o, msg := parseOptions(args[2:], awaitLossWords)
	waits, block, wrong := o.parseBlock()
	if msg = cmp.Or(msg, wrong); msg == "" && (!waits || o.token == 0) {
		msg = msgSyntax
	}
	if msg = cmp.Or(msg, c.service.keyError(string(args[1]))); msg != "" {
		return appendError(dst, msg)
	}
	if !c.beginWait() {
		return appendError(dst, msgLimit)
	}
	defer c.endWait()
	if block == 0 {
		block = script.MaxTTL
	}
	ctx, cancel := context.WithTimeout(ctx, block)
	defer cancel()
	c.waiting.OnUnblock(cancel)
	defer context.AfterFunc(c.service.events.lossWaitsEnd, guard.Func(c.service.log, "end of a wait", cancel))()
	reason, err := c.service.events.lossWait(c.id(string(args[1])), o.token).Run(ctx)
	fails := c.endWait()
	switch {
	case fails && reason == "":
		return appendError(dst, msgUnblocked)
	case reason == "" && c.service.events.lossWaitsEnd.Err() != nil:
		return appendError(dst, msgDraining)
	case errors.Is(err, script.ErrAbsent):
		return appendError(dst, msgNotHeld)
	case errors.Is(err, script.ErrUnknown), errors.Is(err, script.ErrRefused):
		return c.timeout(dst, msgRefused)
	case err != nil:
		return appendError(dst, script.ErrorText(err))
	case reason == "":
		return appendNil(dst)
	}
	return appendBulk(dst, reason)
}
