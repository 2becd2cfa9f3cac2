package lockcmd

import (
	"context"
	"time"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/view"
	"leash/proxy/resp"
)

// ttl runs LOCK.TTL from memory: for how many ms from now on the hold is certain (R1).
func (c *Carrier) ttl(_ context.Context, dst []byte, args [][]byte) []byte {
	key, o, msg := c.service.parse(args, ttlWords)
	if msg != "" {
		return resp.AppendError(dst, msg)
	}
	h := c.ownHold(key, o)
	if h == nil && o.Token != 0 { // a token proves the hold on any connection
		h = c.service.Holds.Find(c.id(key), o.Means)
	}
	if h != nil {
		if left := h.CertainFor().Milliseconds(); left > 0 {
			return resp.AppendInt(dst, left)
		}
	}
	return resp.AppendInt(dst, -2)
}

// check runs LOCK.CHECK: whether Redis has a hold with that token.
func (c *Carrier) check(_ context.Context, dst []byte, args [][]byte) []byte {
	key, o, msg := c.service.parse(args, checkWords)
	if msg != "" {
		return resp.AppendError(dst, msg)
	}
	switch _, _, ok, err := c.service.Releaser.Seek(c.id(key), o.Selector, c.service.deadline()); {
	case err != nil:
		return c.replyError(dst, err, refusal.NotAccepted)
	case !ok:
		return resp.AppendInt(dst, 0)
	}
	return resp.AppendInt(dst, 1)
}

// info runs LOCK.INFO.
func (c *Carrier) info(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	key := string(args[1])
	if msg := s.keyError(key); msg != "" {
		return resp.AppendError(dst, msg)
	}
	info, err := s.Redis.Inspect(c.id(key), s.deadline())
	if err != nil {
		return c.replyError(dst, err, refusal.NotAccepted)
	}
	shown, held := info.Shown()
	if !held {
		if info.Left = s.Graces.Left(key); info.Left <= 0 {
			return append(dst, resp.NilBulk...)
		}
	}
	all, fair := s.Waits.OfLock(c.id(key)) // Redis has the number of all FAIR waiters
	return appendInfo(dst, info, shown, all-fair+info.Queue)
}

// BadKeyError is the error for a key that cannot be a lock.
type BadKeyError struct{ Text string }

// Error implements error.
func (e *BadKeyError) Error() string { return e.Text }

// ViewLock shows a lock, as view.Viewer.ViewLock. The error may also be a *BadKeyError.
func (s *Service) ViewLock(db int, key string, until time.Time) (view.Lock, error) {
	if msg := s.keyError(key); msg != "" {
		return view.Lock{}, &BadKeyError{msg}
	}
	return s.Viewer.ViewLock(script.Lock{DB: db, Key: key}, until)
}

// appendInfo appends the map of LOCK.INFO. h is the hold to show; without one the lock is in its
// grace period. Unknown values of a lock that Redisson holds are nil.
func appendInfo(dst []byte, info script.Inspection, h script.Hold, waiters int) []byte {
	r, held, known := h.Record, h.Mode != nil, h.Record.Token != 0
	state, mode := view.Grace, ""
	if held {
		state, mode = view.Held, h.Mode.Name
	}
	dst = resp.AppendArray(dst, 22)
	text := func(name, value string, known bool) {
		dst = resp.AppendBulk(dst, name)
		if known {
			dst = resp.AppendBulk(dst, value)
		} else {
			dst = append(dst, resp.NilBulk...)
		}
	}
	number := func(name string, value int64, known bool) {
		dst = resp.AppendBulk(dst, name)
		if known {
			dst = resp.AppendInt(dst, value)
		} else {
			dst = append(dst, resp.NilBulk...)
		}
	}
	text("state", state, true)
	text("mode", mode, held)
	text("owner", h.Owner, held)
	number("token", r.Token, known)
	number("holds", h.Count, true)
	number("since-ms", r.Since, known)
	number("age-ms", max(info.Now-r.Since, 0), known)
	number("ttl-ms", info.Left.Milliseconds(), true)
	text("client", r.Client, known && r.Client != "-")
	text("leash", script.CarrierLeash(r.Carrier), known)
	number("waiters", int64(waiters), true)
	return dst
}
