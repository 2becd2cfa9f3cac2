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
	"leash/renewal"
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
	args := s.extendArgs(lock, f, time.Duration(ms)*time.Millisecond)
	var done script.ExtendResult
	switch {
	case h == nil:
		args.Event = event.Text("extended", f.Record.Token, f.Record.Carrier, lock.Key)
		done, err = s.redis.Extend(args, until)
	case !h.LockRequests(until):
		return 0, transport.ErrRefused
	default:
		defer h.UnlockRequests()
		done, err = s.extendHold(h, args, script.Millis(ms), until)
	}
	left = done.Left
	if rest < script.MaxTTL {
		left = min(left, max(rest-time.Since(heard), 0).Milliseconds())
	}
	return left, err
}

// extendArgs say that the lease f lasts so long from now on.
func (s *Service) extendArgs(lock script.Lock, f script.Hold, lasts time.Duration) script.ExtendArgs {
	return script.ExtendArgs{Lock: lock, Hold: f, RequestID: s.holds.NewID(), Lasts: lasts,
		Keep: s.cfg.WatchdogTimeout}
}

// extendHold extends h, whose requests the caller has locked.
func (s *Service) extendHold(h *hold.Hold, args script.ExtendArgs, ttl time.Duration,
	until time.Time) (done script.ExtendResult, err error) {
	h.ExtendFor(ttl)
	if done, err = s.redis.Extend(args, until); err != nil || done.Left < 0 {
		s.watchdog.Check(&h.Watch) // Redis will tell how long h lasts
	} else {
		h.SetLease(ttl, renewal.Until(done.Sent, script.Millis(done.Left)))
	}
	return done, err
}

// switchToLease turns h into a lease. h is renewed so far, and nobody has been told of it. A hold
// that was acquired before the group is left alone. A hold that Redis does not have is forgotten.
func (s *Service) switchToLease(h *hold.Hold, of *hold.Group, ttl time.Duration, until time.Time) error {
	if !h.In(of) {
		return nil
	}
	if !h.LockRequests(until) {
		return transport.ErrRefused
	}
	defer h.UnlockRequests()
	if !h.MarkAsLease(of) {
		return nil
	}
	info, err := s.redis.Inspect(h.Lock(), until)
	if err != nil {
		return err
	}
	f, ok := info.Find(h.Token)
	if !ok || f.Record.Carrier != h.Carrier.Name {
		h.Apply(hold.Dropped) // it was lost
		return nil
	}
	args := s.extendArgs(h.Lock(), f, ttl)
	args.ToLease = true
	done, err := s.extendHold(h, args, ttl, until)
	if err == nil && done.Left < 0 {
		err = transport.ErrRefused
	}
	return err
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
