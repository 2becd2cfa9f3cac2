package script

import (
	"context"
	"time"
)

// Counters, latches and the totals of semaphores. Nobody owns them, so Leash neither repeats nor
// undoes a call that counts. Its error is then ErrUnknown.

// Lock names a lock, a semaphore, a counter or a latch. The same key in two databases is two locks
// (R8). They share one channel, because Redis's channels have no databases. A message about one of
// them also wakes the waiters of the other, which attempt once and wait on.
type Lock struct {
	DB  int
	Key string
}

// Connection is the client connection that asks for a call. The call is not written after Ctx has
// ended, or after the connection's holds are over (R27). The zero value sets no limit.
type Connection struct {
	Ctx    context.Context
	Holder holder
}

// countCall is a call about a counter, which the connection asks for.
func (conn Connection) countCall(sc *Script, lock Lock, args ...any) *scriptCall {
	return &scriptCall{Script: sc, DB: lock.DB, Keys: []string{lock.Key}, Args: words(args...), RunsOnce: true,
		Ctx: conn.Ctx, Holder: conn.Holder}
}

// Take takes n permits from a counter, if that many are available. left is how many remain then.
func (c *Client) Take(lock Lock, n int64, until time.Time) (left int64, taken bool, err error) {
	reply, err := c.ask(Connection{}.countCall(takeScript, lock, n), until)
	if got := integersOf(reply); err == nil && len(got) == 2 {
		return got[1], true, nil
	}
	return 0, false, err
}

// Give adds n permits to a counter. It returns how many are available now.
func (c *Client) Give(conn Connection, lock Lock, n int64, until time.Time) (available int64, err error) {
	call := conn.countCall(giveScript, lock, n, PermitChannel(lock.Key), c.Publish)
	call.RunsOnce = n > 0
	return c.askInt(call, until)
}

// SetLatch sets the count of a latch that has none. It returns 1, or 0 if the latch has a count.
func (c *Client) SetLatch(conn Connection, lock Lock, n int64, until time.Time) (set int64, err error) {
	return c.askInt(conn.countCall(setLatchScript, lock, n, LatchChannel(lock.Key), c.Publish), until)
}

// CountDown counts a latch down. It returns the count that is left.
func (c *Client) CountDown(conn Connection, lock Lock, until time.Time) (left int64, err error) {
	return c.askInt(conn.countCall(countDownScript, lock, LatchChannel(lock.Key), c.Publish), until)
}

// InitSemaphore sets the total of a semaphore that has none. It returns 1, or 0 if the semaphore
// has a total.
func (c *Client) InitSemaphore(conn Connection, lock Lock, total int64, until time.Time) (set int64, err error) {
	return c.askInt(conn.countCall(initSemaphoreScript, lock, total, PermitChannel(lock.Key), c.Publish), until)
}

// ResizeSemaphore sets the total of a semaphore, whether it has one or not. It returns how many
// permits are available now; below 0, more are held than there are.
func (c *Client) ResizeSemaphore(conn Connection, lock Lock, total int64, until time.Time) (available int64,
	err error) {
	call := conn.countCall(resizeSemaphoreScript, lock, total, PermitChannel(lock.Key), c.Publish)
	call.Keys, call.RunsOnce = SemaphoreKeys(lock.Key), false
	return c.askInt(call, until)
}

// SemaphoreInfo returns how many permits of a semaphore are available and how many are held.
func (c *Client) SemaphoreInfo(lock Lock, until time.Time) (available, held int64, err error) {
	reply, err := c.ask(&scriptCall{Script: semaphoreInfoScript, DB: lock.DB, Keys: SemaphoreKeys(lock.Key)}, until)
	if err != nil {
		return 0, 0, err
	}
	n := integersOf(reply)
	return n[0], n[1], nil
}
