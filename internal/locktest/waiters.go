package locktest

import (
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd"
	"leash/lockcmd/wait"
)

// Unblock ends the wait of the command in progress, as CLIENT UNBLOCK does.
func (a *Client) Unblock(fail bool) {
	a.T.Helper()
	Eventually(a.T, 5*time.Second, "it waits", func() bool { return a.Carrier.Unblock(fail) })
	if a.Carrier.Unblock(fail) {
		a.T.Error("unblocked twice")
	}
}

// StartInQueue starts a command that waits, and returns when it is the n-th in the queue.
func (c *Client) StartInQueue(s *lockcmd.Service, n int, id wait.QueueID, args ...string) <-chan string {
	c.T.Helper()
	reply := c.Start(args...)
	Eventually(c.T, 5*time.Second, "it is in the queue", func() bool { return s.Waits.InQueue(id) == n })
	return reply
}

// WaitFair starts an ACQUIRE with FAIR that waits. It returns when the waiter is the n-th in the
// queue.
func (c *Client) WaitFair(rdb redis.UniversalClient, n int, key string, options ...string) <-chan string {
	c.T.Helper()
	reply := c.Start(append([]string{"LOCK.ACQUIRE", key, "FAIR"}, options...)...)
	Eventually(c.T, 5*time.Second, "the waiter is in the queue", func() bool { return len(FairOrder(rdb, key)) >= n })
	return reply
}

// Await starts an ACQUIRE that waits. It returns when at most n waiters are in the queue, this one
// included.
func (c *Client) Await(s *lockcmd.Service, n int, key string, options ...string) <-chan string {
	c.T.Helper()
	reply := c.Start(append([]string{"LOCK.ACQUIRE", key}, options...)...)
	Eventually(c.T, 5*time.Second, "the waiter is in the queue", func() bool {
		return s.Waiting(LockOf(key)) == n
	})
	return reply
}
