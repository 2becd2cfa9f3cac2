package lockcmd

import (
	"bytes"
	"time"

	"leash/lockcmd/hold"
	"leash/proxy/resp"
)

// replyAbsent answers when Redis has no such hold. It was lost if this connection had it.
func (c *Carrier) replyAbsent(dst []byte, key string, o options, until time.Time) []byte {
	h := c.ownHold(key, o)
	if h == nil {
		return appendError(dst, msgNotHeld)
	}
	if !h.LockRequests(until) {
		return c.timeout(dst, msgRefused)
	}
	defer h.UnlockRequests()
	switch lost, err := c.service.restorer.SettleMissing(h, until); {
	case err != nil:
		return c.timeout(dst, msgRefused)
	case lost != "":
		return appendError(dst, c.lossText(h, lost))
	}
	return appendError(dst, msgNotHeld)
}

// lossText is the error that tells the client of the loss of h.
func (c *Carrier) lossText(h *hold.Hold, reason string) string {
	c.ForgetLoss(h)
	return msgLost(h.Key(), reason)
}

// takeUnreportedLoss returns and removes an unreported loss of one of the command's keys, to be the
// reply. If the TOKEN or OWNER of the command names another hold, the command runs instead.
// Otherwise the reply would be taken for the end of that hold.
func (c *Carrier) takeUnreportedLoss(verb []byte, args [][]byte) (key, reason string, ok bool) {
	if len(args) == 0 || !c.HasUnreportedLoss() {
		return "", "", false
	}
	if !bytes.HasPrefix(verb, []byte("LOCK.")) || string(verb) == notifyName {
		return "", "", false
	}
	keys, options := args[:1], args[1:]
	if bytes.HasPrefix(verb, []byte("LOCK.M")) {
		n, _ := resp.ParseInt(args[0])
		end := max(1, min(n+1, int64(len(args))))
		keys, options = args[1:end], args[end:]
	}
	owner := ownerNamed(options)
	for i, k := range keys {
		lock := c.id(string(k))
		if reason, ok = c.TakeUnreportedLoss(lock, tokenNamed(options, i, len(keys)), owner); ok {
			return lock.Key, reason, true
		}
	}
	return "", "", false
}

// tokenNamed is the token for one of the keys, by TOKEN or TOKENS; 0 for none.
func tokenNamed(options [][]byte, key, keys int) (token int64) {
	for i, arg := range options {
		at := i + 1
		if bytes.EqualFold(arg, []byte("TOKENS")) {
			at += key
		} else if keys > 1 || !bytes.EqualFold(arg, []byte("TOKEN")) {
			continue
		}
		if at < len(options) {
			token, _ = resp.ParseInt(options[at])
		}
	}
	return token
}

// ownerNamed is the OWNER in the options; "" for none.
func ownerNamed(options [][]byte) (owner string) {
	for i, arg := range options {
		if bytes.EqualFold(arg, []byte("OWNER")) && i+1 < len(options) {
			owner = string(options[i+1])
		}
	}
	return owner
}
