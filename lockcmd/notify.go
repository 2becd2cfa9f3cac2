package lockcmd

import (
	"context"

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
