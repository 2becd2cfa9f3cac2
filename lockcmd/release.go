package lockcmd

import (
	"cmp"
	"context"
	"errors"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/release"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/proxy/resp"
)

// release runs LOCK.RELEASE.
func (c *Carrier) release(_ context.Context, dst []byte, args [][]byte) []byte {
	key, o, msg := c.service.parse(args, releaseWords)
	if msg != "" {
		return resp.AppendError(dst, msg)
	}
	return c.unlock(dst, key, o)
}

// unlock releases the hold that the options mean, and answers.
func (c *Carrier) unlock(dst []byte, key string, o options) []byte {
	s, lock, until := c.service, c.id(key), c.service.deadline()
	code, lost, err := int64(script.NoSuchHold), "", error(nil)
	anywhere := o.Token != 0 || o.Owner != ""
	var h *hold.Hold
	if o.id == "" { // otherwise any connection that repeats the command must find the answer
		if h = c.ownHold(key, o); h == nil && anywhere {
			h = s.Holds.Find(lock, o.Means)
		}
	}
	if h != nil {
		code, lost, err = s.Releaser.Release(h, o.all, until)
	}
	// The event of a move may still be on its way.
	if anywhere && code == script.NoSuchHold && lost == "" && err == nil {
		code, err = s.Releaser.ReleaseAnywhere(lock, o.Selector, o.id, o.all, until)
	}
	switch {
	case err != nil:
		return c.replyError(dst, err, refusal.ReleaseLater)
	case lost != "":
		return resp.AppendError(dst, string(c.ReportLoss(h, lost)))
	case code == script.NoSuchHold:
		return resp.AppendError(dst, refusal.NotHeld)
	}
	return resp.AppendInt(dst, code)
}

// breakLock runs LOCK.BREAK.
func (c *Carrier) breakLock(_ context.Context, dst []byte, args [][]byte) []byte {
	s, key := c.service, string(args[1])
	if msg := s.keyError(key); msg != "" {
		return resp.AppendError(dst, msg)
	}
	how, err := s.Releaser.Break(c.id(key), nil, s.deadline())
	if err != nil {
		return c.replyError(dst, err, refusal.BreakUnknown)
	}
	return resp.AppendInt(dst, int64(how))
}

// Break ends all holds of a lock against their owners' will, like LOCK.BREAK, if it has none but
// those with the confirmed tokens. A hold of Redisson has the token 0. It blocks until Redis has
// answered or Config.UpstreamTimeout is over. The error is release.ErrOtherHolder before anything
// was done, a *BadKeyError, or one of Redis; after an error of Redis the outcome is unknown. Safe
// for concurrent use.
func (s *Service) Break(db int, key string, confirmed []int64) (release.BreakOutcome, error) {
	if msg := s.keyError(key); msg != "" {
		return release.WasFree, &BadKeyError{msg}
	}
	return s.Releaser.Break(script.Lock{DB: db, Key: key}, append([]int64{}, confirmed...), s.deadline())
}

// ownHold returns this connection's newest hold that the options mean.
func (c *Carrier) ownHold(key string, o options) *hold.Hold {
	return c.NewestReported(c.id(key), o.Means)
}

// extend runs LOCK.EXTEND: it sets how long a lease still lasts, on any connection.
func (c *Carrier) extend(_ context.Context, dst []byte, args [][]byte) []byte {
	ms, ok := resp.ParseInt(args[2])
	if !ok {
		return resp.AppendError(dst, refusal.NotInteger)
	}
	o, msg := parseOptions(args[3:], ttlWords)
	if msg == "" && (ms < 1 || ms > script.MaxTTL.Milliseconds()) {
		msg = refusal.Expire(string(args[0]))
	}
	if msg = cmp.Or(msg, c.service.keyError(string(args[1]))); msg != "" {
		return resp.AppendError(dst, msg)
	}
	key, until := string(args[1]), c.service.deadline()
	if o.Token == 0 && o.Owner == "" {
		h := c.ownHold(key, o)
		if h == nil {
			return resp.AppendError(dst, refusal.NotHeld)
		}
		o.Token = h.Token
	}
	switch left, err := c.service.Releaser.Extend(c.id(key), o.Selector, script.Millis(ms), until); {
	case err == nil:
		return resp.AppendInt(dst, left.Milliseconds())
	case errors.Is(err, script.ErrAbsent):
		return c.replyAbsent(dst, key, o, until)
	case errors.Is(err, restore.ErrIsRenewed):
		return resp.AppendError(dst, refusal.IsRenewed)
	default:
		return c.replyError(dst, err, refusal.ExtendUnknown)
	}
}
