package lockcmd

import (
	"cmp"
	"context"

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
	key, o, msg := c.service.parse(awaitLossName, args, awaitLossWords)
	waits, block, wrong := o.parseBlock()
	if msg = cmp.Or(msg, wrong); msg == "" && (!waits || o.Token == 0) {
		msg = msgSyntax
	}
	if msg != "" {
		return appendError(dst, msg)
	}
	if !c.BeginWait() {
		return appendError(dst, msgLimit)
	}
	defer c.EndWait()
	if block == 0 {
		block = script.MaxTTL
	}
	ctx, cancel := context.WithTimeout(ctx, block)
	defer cancel()
	c.OnUnblock(cancel)
	defer context.AfterFunc(c.service.events.lossWaitsEnd, guard.Func(c.service.log, "end of a wait", cancel))()
	reason, err := c.service.events.lossWait(c.id(key), o.Token).Run(ctx)
	fails := c.EndWait()
	switch {
	case fails && reason == "":
		return appendError(dst, msgUnblocked)
	case reason == "" && c.service.events.lossWaitsEnd.Err() != nil:
		return appendError(dst, msgDraining)
	case err != nil:
		return c.replyError(dst, err, msgRefused)
	case reason == "":
		return appendNil(dst)
	}
	return appendBulk(dst, reason)
}
