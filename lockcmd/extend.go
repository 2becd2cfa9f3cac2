package lockcmd

import (
	"cmp"
	"context"
	"errors"

	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/proxy/resp"
)

const (
	extendName = "LOCK.EXTEND"
	checkName  = "LOCK.CHECK"
)

// extend runs LOCK.EXTEND: it sets how long a lease still lasts, on any connection.
func (c *Carrier) extend(_ context.Context, dst []byte, args [][]byte) []byte {
	if len(args) < 3 {
		return appendError(dst, msgArity(extendName))
	}
	ms, ok := resp.ParseInt(args[2])
	if !ok {
		return appendError(dst, msgNotInteger)
	}
	o, msg := parseOptions(args[3:], ttlWords)
	if msg == "" && (ms < 1 || ms > script.MaxTTL.Milliseconds()) {
		msg = msgExpire(extendName)
	}
	if msg = cmp.Or(msg, c.service.keyError(string(args[1]))); msg != "" {
		return appendError(dst, msg)
	}
	key, until := string(args[1]), c.service.deadline()
	if o.Token == 0 && o.Owner == "" {
		h := c.ownHold(key, o)
		if h == nil {
			return appendError(dst, msgNotHeld)
		}
		o.Token = h.Token
	}
	switch left, err := c.service.restorer.Extend(c.id(key), o.Selector, script.Millis(ms), until); {
	case err == nil:
		return appendInt(dst, left.Milliseconds())
	case errors.Is(err, script.ErrAbsent):
		return c.replyAbsent(dst, key, o, until)
	case errors.Is(err, restore.ErrIsRenewed):
		return appendError(dst, msgIsRenewed)
	default:
		return c.replyError(dst, err, msgExtendUnknown)
	}
}

// check runs LOCK.CHECK: whether Redis has a hold with that token.
func (c *Carrier) check(_ context.Context, dst []byte, args [][]byte) []byte {
	if len(args) != 4 {
		return appendError(dst, msgArity(checkName))
	}
	key, o, msg := c.service.parse(checkName, args, checkWords)
	if msg != "" {
		return appendError(dst, msg)
	}
	switch _, _, ok, err := c.service.restorer.Seek(c.id(key), o.Selector, c.service.deadline()); {
	case err != nil:
		return c.replyError(dst, err, msgRefused)
	case !ok:
		return appendInt(dst, 0)
	}
	return appendInt(dst, 1)
}
