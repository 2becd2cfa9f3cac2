package lockcmd

import (
	"cmp"
	"context"
	"math"
	"time"

	"leash/lockcmd/acquire"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
	"leash/proxy/resp"
)

// The plain counter is Redisson's RSemaphore: permits without owners. Redis does not keep who took
// them. So a request whose outcome is unknown can neither be repeated nor undone. The client is
// told that the outcome is unknown.

// maxPermits is the largest count that Redisson can read, with its 32 bits.
const maxPermits = math.MaxInt32

// parsePermits reads the optional number after a command's key and the options after it. The number
// is 1 if it is missing.
func (s *Service) parsePermits(args [][]byte, allowed string) (n int64, o options, msg string) {
	n, rest := 1, args[2:]
	if len(rest) > 0 && (allowed == "" || len(rest)%2 == 1) {
		if n, msg = parseCount(rest[0], maxPermits); msg != "" {
			return 0, o, msg
		}
		rest = rest[1:]
	}
	if allowed == "" && len(rest) > 0 {
		return 0, o, refusal.Arity(string(args[0]))
	}
	o, msg = parseOptions(rest, allowed)
	return n, o, cmp.Or(msg, s.keyError(string(args[1])))
}

// parseCount reads a number from 0 to most.
func parseCount(b []byte, most int64) (n int64, msg string) {
	n, ok := resp.ParseInt(b)
	switch {
	case !ok || n > most:
		return 0, refusal.NotInteger
	case n < 0:
		return 0, refusal.Negative
	}
	return n, ""
}

// take runs SEM.TAKE.
func (c *Carrier) take(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	n, o, msg := s.parsePermits(args, "BLOCK")
	waits, block, blockMsg := o.parseBlock()
	msg = cmp.Or(msg, blockMsg)
	switch {
	case msg != "":
		return resp.AppendError(dst, msg)
	case c.grantsNothing():
		return resp.AppendError(dst, refusal.Draining)
	case n == 0:
		return resp.AppendInt(dst, 1)
	}
	lock := c.id(string(args[1]))
	takeOnce := func(until time.Time) acquire.Result {
		left, took, err := s.Redis.Take(lock, n, until)
		switch {
		case err != nil:
			return acquire.Failure(err)
		case took:
			return acquire.Result{Kind: acquire.Granted, PermitsLeft: left}
		}
		return acquire.Result{}
	}
	wt := wait.Wait[acquire.Result]{
		Queue: wait.QueueOf(lock, script.Permit), Request: attempt(takeOnce), End: wait.EndOf(block),
	}
	r := c.AttemptOrWait(ctx, wt, wait.Position{}, waits, false)
	if r.Kind == acquire.Granted && !c.CanAnswer(ctx) {
		s.tasks.Spawn(func() { _, _ = s.Redis.Give(transport.Connection{}, lock, n, s.deadline()) })
		r = acquire.Result{Kind: acquire.Failed, Err: refusal.Error(refusal.Gone)}
	}
	return c.replyCount(dst, r)
}

// attempt waits for what nobody holds. It tries once to get it. It implements wait.Request.
type attempt func(until time.Time) acquire.Result

// Attempt implements wait.Request.
func (a attempt) Attempt(until time.Time, _ wait.Position) acquire.Result { return a(until) }

// PassesOn implements wait.Request.
func (attempt) PassesOn(_ wait.Request[acquire.Result], r acquire.Result, woken bool) bool {
	return r.ForAll || r.LeavesPermits(woken)
}

// TakesFrom implements wait.Request. A hold has an owner, and a counter has none.
func (attempt) TakesFrom(*script.Mode) bool { return false }

// replyCount answers 1 for granted, 0 for not granted, or an error.
func (c *Carrier) replyCount(dst []byte, r acquire.Result) []byte {
	switch {
	case r.Kind == acquire.Granted:
		return resp.AppendInt(dst, 1)
	case r.Kind == acquire.Unknown:
		return c.timeout(dst, refusal.Unknown)
	case r.Err == nil:
		return resp.AppendInt(dst, 0)
	}
	return c.replyTaken(dst, r, "")
}

// countCommand is a command that answers the number that a script returns.
func countCommand(parse func(s *Service, args [][]byte) (n int64, msg string), call func(r *script.Client,
	conn transport.Connection, lock script.Lock, n int64, until time.Time) (int64, error)) run {
	return func(c *Carrier, ctx context.Context, dst []byte, args [][]byte) []byte {
		s := c.service
		n, msg := parse(s, args)
		if msg != "" {
			return resp.AppendError(dst, msg)
		}
		n, err := call(s.Redis, transport.Connection{Ctx: ctx, Holder: c}, c.id(string(args[1])), n, s.deadline())
		return c.replyNumber(dst, n, err)
	}
}

// parseGive reads the arguments of SEM.GIVE.
func parseGive(s *Service, args [][]byte) (n int64, msg string) {
	n, _, msg = s.parsePermits(args, "")
	return n, msg
}

// replyNumber answers the number that a request returned, or its error.
func (c *Carrier) replyNumber(dst []byte, n int64, err error) []byte {
	if err != nil {
		return c.replyError(dst, err, refusal.Unknown)
	}
	return resp.AppendInt(dst, n)
}

// The latch is Redisson's RCountDownLatch: a count that is set once and counted down by anybody. At
// zero its key is deleted.

// maxCount is the largest count that scripts handle exactly.
const maxCount = 1<<53 - 1

// parseDown reads the arguments of LATCH.DOWN, which has no number.
func parseDown(s *Service, args [][]byte) (n int64, msg string) {
	return 0, s.keyError(string(args[1]))
}

// countDown calls the script of LATCH.DOWN.
func countDown(r *script.Client, conn transport.Connection, lock script.Lock, _ int64, until time.Time) (int64, error) {
	return r.CountDown(conn, lock, until)
}

// getLatch runs LATCH.GET.
func (c *Carrier) getLatch(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	if msg := s.keyError(string(args[1])); msg != "" {
		return resp.AppendError(dst, msg)
	}
	n, err := s.latchCount(c.id(string(args[1])), s.deadline())
	return c.replyNumber(dst, n, err)
}

// latchCount reads a latch; 0 when there is none.
func (s *Service) latchCount(lock script.Lock, until time.Time) (int64, error) {
	text, err := s.Redis.Value(lock.DB, lock.Key, until)
	if err != nil || text == "" {
		return 0, err
	}
	n, ok := resp.ParseInt([]byte(text))
	if !ok {
		return 0, resp.ReplyError(refusal.NotInteger) // as Redis says it
	}
	return n, nil
}

// awaitLatch runs LATCH.AWAIT.
func (c *Carrier) awaitLatch(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	key, o, msg := s.parse(args, "BLOCK")
	waits, block, blockMsg := o.parseBlock()
	if msg = cmp.Or(msg, blockMsg); msg != "" {
		return resp.AppendError(dst, msg)
	}
	lock := c.id(key)
	isZero := func(until time.Time) acquire.Result {
		n, err := s.latchCount(lock, until)
		switch {
		case err != nil:
			return acquire.Failure(err)
		case n > 0:
			return acquire.Result{}
		}
		return acquire.Result{Kind: acquire.Granted, ForAll: true}
	}
	wt := wait.Wait[acquire.Result]{Queue: latchQueue(lock), Request: attempt(isZero), End: wait.EndOf(block)}
	return c.replyCount(dst, c.AttemptOrWait(ctx, wt, wait.Position{}, waits, true))
}

func latchQueue(lock script.Lock) wait.QueueID {
	return wait.QueueID{Lock: lock, Channel: script.LatchChannel(lock.Key)}
}
