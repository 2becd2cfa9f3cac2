package lockcmd

import (
	"context"

	"leash/lockcmd/script"
)

// Commands about the total of a semaphore. It is the same for Redisson's RSemaphore and
// RPermitExpirableSemaphore.

const (
	initName = "SEM.INIT"
	sizeName = "SEM.RESIZE"
	semName  = "SEM.INFO"
)

// parseTotal reads a key and the number after it.
func (s *Service) parseTotal(name string, args [][]byte) (n int64, msg string) {
	if len(args) != 3 {
		return 0, msgArity(name)
	}
	if n, msg = parseCount(args[2], maxPermits); msg == "" {
		msg = s.keyError(string(args[1]))
	}
	return n, msg
}

// initSemaphore runs SEM.INIT.
func (c *Carrier) initSemaphore(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	n, msg := s.parseTotal(initName, args)
	if msg != "" {
		return appendError(dst, msg)
	}
	key := string(args[1])
	call := &script.Call{
		Script: script.InitSemaphoreScript, DB: c.db, Keys: []string{key}, Args: script.Args(n, script.PermitChannel(key), s.cfg.publishMode()), RunsOnce: true,
	}
	return c.replyAsked(ctx, dst, call)
}

// resize runs SEM.RESIZE.
func (c *Carrier) resize(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	n, msg := s.parseTotal(sizeName, args)
	if msg != "" {
		return appendError(dst, msg)
	}
	key := string(args[1])
	call := &script.Call{
		Script: script.ResizeSemaphoreScript, DB: c.db, Keys: script.SemaphoreKeys(key), Args: script.Args(n, script.PermitChannel(key), s.cfg.publishMode()),
	}
	return c.replyAsked(ctx, dst, call)
}

// replyAsked answers the number that a call returns. The call is written only while the
// connection's holds are safe.
func (c *Carrier) replyAsked(ctx context.Context, dst []byte, call *script.Call) []byte {
	call.Ctx, call.Holder = ctx, c
	reply, err := c.service.redis.Ask(call, c.service.deadline())
	return c.replyNumber(dst, script.IntegersOf(reply)[0], err)
}

// semaphoreInfo runs SEM.INFO.
func (c *Carrier) semaphoreInfo(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	if msg := s.onlyKey(semName, args); msg != "" {
		return appendError(dst, msg)
	}
	lock := c.id(string(args[1]))
	reply, err := s.redis.Ask(&script.Call{Script: script.SemaphoreInfoScript, DB: lock.db, Keys: script.SemaphoreKeys(lock.key)}, s.deadline())
	n := script.IntegersOf(reply)
	if err != nil || len(n) != 2 {
		return c.replyNumber(dst, 0, err)
	}
	dst = appendArray(dst, 8)
	for i, number := range []int64{n[0] + n[1], n[0], n[1], int64(s.permitQueues.length(queueID{lock, script.PermitChannel(lock.key)}))} {
		dst = appendBulk(dst, [...]string{"total", "available", "held", "waiters"}[i])
		dst = appendInt(dst, number)
	}
	return dst
}
