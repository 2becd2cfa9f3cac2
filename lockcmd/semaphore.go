package lockcmd

import (
	"cmp"
	"context"

	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// Commands about the total of a semaphore. It is the same for Redisson's RSemaphore and
// RPermitExpirableSemaphore.

const (
	initName = "SEM.INIT"
	sizeName = "SEM.RESIZE"
	semName  = "SEM.INFO"
)

// parseTotal reads a key and the number after it, from 0 to most.
func (s *Service) parseTotal(name string, args [][]byte, most int64) (n int64, msg string) {
	if len(args) != 3 {
		return 0, msgArity(name)
	}
	n, msg = parseCount(args[2], most)
	return n, cmp.Or(msg, s.keyError(string(args[1])))
}

// initSemaphore runs SEM.INIT.
func (c *Carrier) initSemaphore(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	n, msg := s.parseTotal(initName, args, maxPermits)
	if msg != "" {
		return appendError(dst, msg)
	}
	n, err := s.redis.InitSemaphore(c.connection(ctx), c.id(string(args[1])), n, s.deadline())
	return c.replyNumber(dst, n, err)
}

// resize runs SEM.RESIZE.
func (c *Carrier) resize(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	n, msg := s.parseTotal(sizeName, args, maxPermits)
	if msg != "" {
		return appendError(dst, msg)
	}
	n, err := s.redis.ResizeSemaphore(c.connection(ctx), c.id(string(args[1])), n, s.deadline())
	return c.replyNumber(dst, n, err)
}

// connection is the carrier's connection, for a call that is written only while the connection's
// holds are safe.
func (c *Carrier) connection(ctx context.Context) script.Connection {
	return script.Connection{Ctx: ctx, Holder: c}
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
		int64(s.waits.InQueue(permitQueue(lock)))} {
		dst = appendBulk(dst, [...]string{"total", "available", "held", "waiters"}[i])
		dst = appendInt(dst, number)
	}
	return dst
}

// permitQueue is the queue for permits of a semaphore or a counter.
func permitQueue(lock script.Lock) wait.QueueID {
	return wait.QueueID{Lock: lock, Channel: script.PermitChannel(lock.Key)}
}
