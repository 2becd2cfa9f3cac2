package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"leash/lockcmd/acquire"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
	"leash/proxy/resp"
)

// The latch is Redisson's RCountDownLatch: a count that is set once and counted down by anybody. At
// zero its key is deleted.

const (
	setName   = "LATCH.SET"
	downName  = "LATCH.DOWN"
	getName   = "LATCH.GET"
	awaitName = "LATCH.AWAIT"
)

// maxCount is the largest count that scripts handle exactly.
const maxCount = 1<<53 - 1

// errNotNumber is Redis's own error for a string that holds no number.
var errNotNumber = errors.New(msgNotInteger)

// onlyKey checks the arguments of a command that takes a key and nothing else.
func (s *Service) onlyKey(name string, args [][]byte) (msg string) {
	if len(args) != 2 {
		return msgArity(name)
	}
	return s.keyError(string(args[1]))
}

// parseDown reads the arguments of LATCH.DOWN, which has no number.
func parseDown(s *Service, args [][]byte) (n int64, msg string) { return 0, s.onlyKey(downName, args) }

// countDown calls the script of LATCH.DOWN.
func countDown(r *script.Client, conn transport.Connection, lock script.Lock, _ int64, until time.Time) (int64, error) {
	return r.CountDown(conn, lock, until)
}

// getLatch runs LATCH.GET.
func (c *Carrier) getLatch(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	if msg := s.onlyKey(getName, args); msg != "" {
		return appendError(dst, msg)
	}
	n, err := s.latchCount(c.id(string(args[1])), s.deadline())
	return c.replyNumber(dst, n, err)
}

// latchCount reads a latch; 0 when there is none.
func (s *Service) latchCount(lock script.Lock, until time.Time) (int64, error) {
	text, err := s.redis.Value(lock.DB, lock.Key, until)
	if err != nil || text == "" {
		return 0, err
	}
	n, ok := resp.ParseInt([]byte(text))
	if !ok {
		return 0, errNotNumber
	}
	return n, nil
}

// awaitLatch runs LATCH.AWAIT.
func (c *Carrier) awaitLatch(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	key, o, msg := s.parse(awaitName, args, "BLOCK")
	waits, block, blockMsg := o.parseBlock()
	if msg = cmp.Or(msg, blockMsg); msg != "" {
		return appendError(dst, msg)
	}
	lock := c.id(key)
	wt := wait.Wait[acquire.Result]{Queue: latchQueue(lock), Request: &latchRequest{s, lock}, End: wait.EndOf(block)}
	return c.replyCount(dst, c.AttemptOrWait(ctx, wt, wait.Position{}, waits, true))
}

func latchQueue(lock script.Lock) wait.QueueID {
	return wait.QueueID{Lock: lock, Channel: script.LatchChannel(lock.Key)}
}

// latchRequest waits until a latch is at zero.
type latchRequest struct {
	service *Service
	lock    script.Lock
}

// Attempt checks once whether the latch is at zero. The result is then granted to all waiters.
func (lr *latchRequest) Attempt(until time.Time, _ wait.Position) acquire.Result {
	n, err := lr.service.latchCount(lr.lock, until)
	switch {
	case err != nil:
		return acquire.Failure(err)
	case n > 0:
		return acquire.Result{}
	}
	return acquire.Result{Kind: acquire.Granted, ForAll: true}
}

// PassesOn implements wait.Request.
func (*latchRequest) PassesOn(wait.Request[acquire.Result], acquire.Result, bool) bool { return true }

// TakesFrom implements wait.Request.
func (*latchRequest) TakesFrom(*script.Mode) bool { return false }
