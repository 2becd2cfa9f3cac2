package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/proxy/resp"
)

const (
	extendName = "LOCK.EXTEND"
	checkName  = "LOCK.CHECK"
)

// extend runs LOCK.EXTEND: it sets how long a lease still lasts, on any connection. It reads the
// hold's record, sends a record that replaces it, and starts again if the record has changed (R13).
// A late copy of the request finds another record and does nothing.
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
	for range 16 {
		left, err := c.tryExtend(c.id(key), o, ms, until)
		switch {
		case err == nil && left >= 0:
			return appendInt(dst, left)
		case err == nil:
			continue
		case errors.Is(err, script.ErrAbsent):
			return c.replyAbsent(dst, key, o, until)
		case errors.Is(err, errIsRenewed):
			return appendError(dst, msgIsRenewed)
		}
		return c.replyError(dst, err, msgExtendUnknown)
	}
	return c.timeout(dst, msgRefused)
}

var errIsRenewed = errors.New("lockcmd: the hold is renewed")

// tryExtend extends the hold once. left is what is left of its lease, or of MAXHOLD if that ends
// earlier. It is negative when the record has changed since it was read.
func (c *Carrier) tryExtend(lock script.Lock, o options, ms int64, until time.Time) (left int64, err error) {
	s := c.service
	info, f, ok, err := s.restorer.Seek(lock, o.Selector, until)
	if err != nil {
		return 0, err
	}
	heard := time.Now()
	if !ok {
		return 0, script.ErrAbsent
	}
	if !f.Record.Terms().Lease {
		return 0, errIsRenewed
	}
	rest := script.MaxTTL
	h := s.holds.FindRef(f.Ref(lock))
	if most := f.Record.Terms().MaxHold; h != nil {
		rest = h.MaxHoldLeft(heard)
	} else if most > 0 {
		// The age is negative after a step back of Redis's clock.
		rest = most - max(script.Millis(info.Now-f.Record.Since), 0)
	}
	if rest < script.MaxTTL {
		ms = hold.CapLease(script.Millis(ms), rest).Milliseconds()
	}
	args := s.restorer.ExtendArgs(lock, f, script.Millis(ms))
	var done script.ExtendResult
	switch {
	case h == nil:
		args.Event = event.Text("extended", f.Record.Token, f.Record.Carrier, lock.Key)
		done, err = s.redis.Extend(args, until)
	case !h.LockRequests(until):
		return 0, transport.ErrRefused
	default:
		defer h.UnlockRequests()
		done, err = s.restorer.Extend(h, args, until)
	}
	left = done.Left
	if rest < script.MaxTTL {
		left = min(left, max(rest-time.Since(heard), 0).Milliseconds())
	}
	return left, err
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
