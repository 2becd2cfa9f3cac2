package lockcmd

import (
	"cmp"
	"context"

	"leash/internal/guard"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/proxy/resp"
)

const notifyName = "LOCK.NOTIFY"

// notify runs LOCK.NOTIFY. Notices about present waiters come after its answer.
func (c *Carrier) notify(_ context.Context, dst []byte, args [][]byte) []byte {
	if len(args) != 2 {
		return appendError(dst, msgArity(notifyName))
	}
	switch resp.Word(args[1]) {
	case "OFF":
		c.StopPushes()
	case "ON":
		if !c.StartPushes() {
			return appendError(dst, msgNoPushes)
		}
	default:
		return appendError(dst, msgSyntax)
	}
	return append(dst, "+OK\r\n"...)
}

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

// waiters is the number of commands that wait for the lock on this Leash.
func (s *Service) waiters(lock script.Lock) int {
	all, _ := s.waits.OfLock(lock)
	return all
}

// checkWanted tells the owner of h if somebody on this Leash waits for the lock.
func (s *Service) checkWanted(h *hold.Hold) {
	if h.Notifies() && s.waiters(h.Lock()) > 0 {
		h.ReportWanted()
	}
}
