package lockcmd

import (
	"cmp"
	"context"
	"encoding/hex"
	"time"

	"leash/lockcmd/acquire"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
	"leash/proxy/resp"
)

// Commands about the total of a semaphore. It is the same for Redisson's RSemaphore and
// RPermitExpirableSemaphore.

// parseTotal returns a function that reads a key and the number after it, from 0 to most.
func parseTotal(most int64) func(s *Service, args [][]byte) (n int64, msg string) {
	return func(s *Service, args [][]byte) (n int64, msg string) {
		n, msg = parseCount(args[2], most)
		return n, cmp.Or(msg, s.keyError(string(args[1])))
	}
}

// semaphoreInfo runs SEM.INFO.
func (c *Carrier) semaphoreInfo(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	lock := c.id(string(args[1]))
	if msg := s.keyError(lock.Key); msg != "" {
		return resp.AppendError(dst, msg)
	}
	available, held, err := s.Redis.SemaphoreInfo(lock, s.deadline())
	if err != nil {
		return c.replyNumber(dst, 0, err)
	}
	dst = resp.AppendArray(dst, 8)
	for i, number := range []int64{available + held, available, held,
		int64(s.Waits.InQueue(wait.QueueOf(lock, script.Permit)))} {
		dst = resp.AppendBulk(dst, [...]string{"total", "available", "held", "waiters"}[i])
		dst = resp.AppendInt(dst, number)
	}
	return dst
}

// maxCountOption is how many permits one ACQUIRE may take: a script must be short.
const maxCountOption = 1000

// acquirePermits runs SEM.ACQUIRE.
func (c *Carrier) acquirePermits(ctx context.Context, dst []byte, args [][]byte) []byte {
	var opts acquire.Options
	key, o, msg := c.service.parse(args, permitWords)
	if msg == "" {
		opts, msg = c.service.acquireOptionsOf("SEM.ACQUIRE", o)
	}
	switch {
	case msg != "":
		return resp.AppendError(dst, msg)
	case c.grantsNothing():
		return resp.AppendError(dst, refusal.Draining)
	}
	opts.Lock, opts.Mode = c.id(key), script.Permit
	permits, r := c.AcquirePermits(ctx, opts, max(o.count, 1))
	if !r.Took() {
		return c.replyTaken(dst, r, resp.NilBulk)
	}
	if o.count > 0 {
		dst = resp.AppendArray(dst, len(permits))
	}
	for _, p := range permits {
		dst = resp.AppendBulk(dst, p)
	}
	return dst
}

// releasePermits runs SEM.RELEASE. An error is about one of the permits. All others that can be
// given back are given back.
func (c *Carrier) releasePermits(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	lock := c.id(string(args[1]))
	var permits []string
	for _, arg := range args[2:] {
		p, ok := parsePermit(arg)
		if !ok {
			return resp.AppendError(dst, refusal.Permit)
		}
		permits = append(permits, p)
	}
	if msg := s.keyError(lock.Key); msg != "" {
		return resp.AppendError(dst, msg)
	}
	if len(permits) == 0 {
		h := c.NewestReported(lock, hold.PermitSelector("").Means)
		if h == nil {
			return resp.AppendError(dst, refusal.NoPermit)
		}
		permits = []string{h.Owner()}
	}
	until := s.deadline()
	replies := c.releaseEach(len(permits), func(int) string { return lock.Key },
		func(i int) []byte { return c.releasePermit(lock, permits[i], until) })
	reply := appendReleased(nil, replies)
	if string(reply) == ":0\r\n" {
		return resp.AppendError(dst, refusal.NoPermit)
	}
	return append(dst, reply...)
}

// releasePermit gives one permit back, whoever holds it, and returns the reply to that.
func (c *Carrier) releasePermit(lock script.Lock, id string, until time.Time) (reply []byte) {
	s := c.service
	h := s.Holds.Find(lock, hold.PermitSelector(id).Means)
	code, lost, err := int64(script.NoSuchHold), "", error(nil)
	if h != nil {
		code, lost, err = s.Releaser.Release(h, true, until)
	}
	given := code == script.HoldEnded
	// The event of a move may still be on its way.
	if !given && lost == "" && err == nil {
		given, err = s.Releaser.ReleasePermit(lock, id, until)
	}
	switch {
	case err != nil:
		return c.replyError(nil, err, refusal.ReleaseLater)
	case lost != "" && h.Carrier == &c.Carrier.Carrier:
		return resp.AppendError(nil, string(c.ReportLoss(h, lost)))
	case given:
		return []byte(":1\r\n")
	}
	return []byte(":0\r\n")
}

// parsePermit reads a permit.
func parsePermit(b []byte) (permit string, ok bool) {
	raw, err := hex.DecodeString(string(b[:min(len(b), 2*acquire.PermitSize+1)]))
	if err != nil || len(raw) != acquire.PermitSize {
		return "", false
	}
	return hex.EncodeToString(raw), true
}
