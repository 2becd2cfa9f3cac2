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
