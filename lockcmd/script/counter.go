package script

import (
	"time"

	"leash/lockcmd/script/transport"
)

// Counters, latches and the totals of semaphores. Nobody owns them, so Leash neither repeats nor
// undoes a call that counts. Its error is then ErrUnknown.

// countCall is a call about a counter, which the connection asks for.
func countCall(conn transport.Connection, sc *transport.Script, lock Lock, args ...any) *transport.Call {
	return &transport.Call{Script: sc, DB: lock.DB, Keys: []string{lock.Key}, Args: transport.Words(args...),
		RunsOnce: true, For: conn}
}

// Take takes n permits from a counter, if that many are available. left is how many remain then.
func (c *Client) Take(lock Lock, n int64, until time.Time) (left int64, taken bool, err error) {
	got, err := c.AskList(countCall(transport.Connection{}, takeScript, lock, n), until, "i", "ii")
	if len(got) < 2 {
		return 0, false, err
	}
	return got[1], true, nil
}

// Give adds n permits to a counter. It returns how many are available now.
func (c *Client) Give(conn transport.Connection, lock Lock, n int64, until time.Time) (available int64, err error) {
	call := countCall(conn, giveScript, lock, n, PermitChannel(lock.Key), c.Publish)
	call.RunsOnce = n > 0
	return c.AskInt(call, until)
}

// SetLatch sets the count of a latch that has none. It returns 1, or 0 if the latch has a count.
func (c *Client) SetLatch(conn transport.Connection, lock Lock, n int64, until time.Time) (set int64, err error) {
	return c.AskInt(countCall(conn, setCounterScript, lock, n, LatchChannel(lock.Key), c.Publish, 1, ""), until)
}

// CountDown counts a latch down. It returns the count that is left.
func (c *Client) CountDown(conn transport.Connection, lock Lock, until time.Time) (left int64, err error) {
	return c.AskInt(countCall(conn, countDownScript, lock, LatchChannel(lock.Key), c.Publish), until)
}

// InitSemaphore sets the total of a semaphore that has none. It returns 1, or 0 if the semaphore
// has a total.
func (c *Client) InitSemaphore(conn transport.Connection, lock Lock, total int64, until time.Time) (set int64,
	err error) {
	call := countCall(conn, setCounterScript, lock, total, PermitChannel(lock.Key), c.Publish, total, "strict")
	return c.AskInt(call, until)
}

// ResizeSemaphore sets the total of a semaphore, whether it has one or not. It returns how many
// permits are available now; below 0, more are held than there are. It waits while a slot migration
// splits the keys (R14).
func (c *Client) ResizeSemaphore(conn transport.Connection, lock Lock, total int64, until time.Time) (available int64,
	err error) {
	call := countCall(conn, resizeSemaphoreScript, lock, total, PermitChannel(lock.Key), c.Publish)
	call.Keys, call.RunsOnce, call.OutlastsMigration = SemaphoreKeys(lock.Key), false, true
	return c.AskInt(call, until)
}

// SemaphoreInfo returns how many permits of a semaphore are available and how many are held. It
// waits while a slot migration splits the keys (R14).
func (c *Client) SemaphoreInfo(lock Lock, until time.Time) (available, held int64, err error) {
	call := &transport.Call{
		Script: semaphoreInfoScript, DB: lock.DB, Keys: SemaphoreKeys(lock.Key), OutlastsMigration: true,
	}
	n, err := c.AskList(call, until, "ii")
	if err != nil {
		return 0, 0, err
	}
	return n[0], n[1], nil
}
