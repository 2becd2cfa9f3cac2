package lockcmd

import (
	"cmp"
	"context"
	"math"
	"time"

	"leash/lockcmd/acquire"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
	"leash/proxy/resp"
)

// Commands about the total of a semaphore. It is the same for Redisson's RSemaphore and
// RPermitExpirableSemaphore.

const (
	initName = "SEM.INIT"
	sizeName = "SEM.RESIZE"
	semName  = "SEM.INFO"
)

// parseTotal returns a function that reads a key and the number after it, from 0 to most.
func parseTotal(name string, most int64) func(s *Service, args [][]byte) (n int64, msg string) {
	return func(s *Service, args [][]byte) (n int64, msg string) {
		if len(args) != 3 {
			return 0, msgArity(name)
		}
		n, msg = parseCount(args[2], most)
		return n, cmp.Or(msg, s.keyError(string(args[1])))
	}
}

// semaphoreInfo runs SEM.INFO.
func (c *Carrier) semaphoreInfo(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	if msg := s.onlyKey(semName, args); msg != "" {
		return appendError(dst, msg)
	}
	lock := c.id(string(args[1]))
	available, held, err := s.redis.SemaphoreInfo(lock, s.deadline())
	if err != nil {
		return c.replyNumber(dst, 0, err)
	}
	dst = appendArray(dst, 8)
	for i, number := range []int64{available + held, available, held,
		int64(s.waits.InQueue(wait.QueueOf(lock, script.Permit)))} {
		dst = appendBulk(dst, [...]string{"total", "available", "held", "waiters"}[i])
		dst = appendInt(dst, number)
	}
	return dst
}

// The plain counter is Redisson's RSemaphore: permits without owners. Redis does not keep who took
// them. So a request whose outcome is unknown can neither be repeated nor undone. The client is
// told that the outcome is unknown.

const (
	takeName = "SEM.TAKE"
	giveName = "SEM.GIVE"
)

// maxPermits is the largest count that Redisson can read, with its 32 bits.
const maxPermits = math.MaxInt32

// parsePermits reads the optional number after a command's key and the options after it. The number
// is 1 if it is missing.
func (s *Service) parsePermits(name string, args [][]byte, allowed string) (n int64, o options, msg string) {
	if len(args) < 2 {
		return 0, o, msgArity(name)
	}
	n, rest := 1, args[2:]
	if len(rest) > 0 && (allowed == "" || len(rest)%2 == 1) {
		if n, msg = parseCount(rest[0], maxPermits); msg != "" {
			return 0, o, msg
		}
		rest = rest[1:]
	}
	if allowed == "" && len(rest) > 0 {
		return 0, o, msgArity(name)
	}
	o, msg = parseOptions(rest, allowed)
	return n, o, cmp.Or(msg, s.keyError(string(args[1])))
}

// parseCount reads a number from 0 to most.
func parseCount(b []byte, most int64) (n int64, msg string) {
	n, ok := resp.ParseInt(b)
	switch {
	case !ok || n > most:
		return 0, msgNotInteger
	case n < 0:
		return 0, msgNegative
	}
	return n, ""
}

// take runs SEM.TAKE.
func (c *Carrier) take(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	n, o, msg := s.parsePermits(takeName, args, "BLOCK")
	waits, block, blockMsg := o.parseBlock()
	msg = cmp.Or(msg, blockMsg)
	switch {
	case msg != "":
		return appendError(dst, msg)
	case c.grantsNothing():
		return appendError(dst, msgDraining)
	case n == 0:
		return appendInt(dst, 1)
	}
	lock := c.id(string(args[1]))
	wt := wait.Wait[acquire.Result]{
		Queue: wait.QueueOf(lock, script.Permit), Request: &counterRequest{s, lock, n}, End: wait.EndOf(block),
	}
	r := c.AttemptOrWait(ctx, wt, wait.Position{}, waits, false)
	if r.Kind == acquire.Granted && !c.CanAnswer(ctx) {
		s.spawn(func() { _, _ = s.redis.Give(transport.Connection{}, lock, n, s.deadline()) })
		r = acquire.Result{Kind: acquire.Failed, Err: acquire.Gone}
	}
	return c.replyCount(dst, r)
}

// counterRequest asks for n permits of a counter.
type counterRequest struct {
	service *Service
	lock    script.Lock
	n       int64
}

// Attempt takes n permits once, if that many are available.
func (cr *counterRequest) Attempt(until time.Time, _ wait.Position) acquire.Result {
	left, took, err := cr.service.redis.Take(cr.lock, cr.n, until)
	switch {
	case err != nil:
		return acquire.Failure(err)
	case took:
		return acquire.Result{Kind: acquire.Granted, PermitsLeft: left}
	}
	return acquire.Result{}
}

// PassesOn implements wait.Request.
func (*counterRequest) PassesOn(_ wait.Request[acquire.Result], r acquire.Result, woken bool) bool {
	return r.LeavesPermits(woken)
}

// TakesFrom is false, because a permit has an owner and a counter has none.
func (*counterRequest) TakesFrom(*script.Mode) bool { return false }

// replyCount answers 1 for granted, 0 for not granted, or an error.
func (c *Carrier) replyCount(dst []byte, r acquire.Result) []byte {
	switch {
	case r.Kind == acquire.Granted:
		return appendInt(dst, 1)
	case r.Kind == acquire.Failed:
		return appendError(dst, failureText(r.Err))
	case r.Kind == acquire.Unknown:
		return c.timeout(dst, msgUnknown)
	case r.Err != nil:
		return c.timeout(dst, failureText(r.Err))
	}
	return appendInt(dst, 0)
}

// countCommand is a command that answers the number that a script returns.
func countCommand(parse func(s *Service, args [][]byte) (n int64, msg string), call func(r *script.Client,
	conn transport.Connection, lock script.Lock, n int64, until time.Time) (int64, error)) run {
	return func(c *Carrier, ctx context.Context, dst []byte, args [][]byte) []byte {
		s := c.service
		n, msg := parse(s, args)
		if msg != "" {
			return appendError(dst, msg)
		}
		n, err := call(s.redis, transport.Connection{Ctx: ctx, Holder: c}, c.id(string(args[1])), n, s.deadline())
		return c.replyNumber(dst, n, err)
	}
}

// parseGive reads the arguments of SEM.GIVE.
func parseGive(s *Service, args [][]byte) (n int64, msg string) {
	n, _, msg = s.parsePermits(giveName, args, "")
	return n, msg
}

// replyNumber answers the number that a request returned, or its error.
func (c *Carrier) replyNumber(dst []byte, n int64, err error) []byte {
	if err != nil {
		return c.replyError(dst, err, msgUnknown)
	}
	return appendInt(dst, n)
}
