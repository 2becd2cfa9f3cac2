package view

import (
	"time"

	"leash/lockcmd/acquire"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// Waiter is a command that waits for a lock on this Leash.
type Waiter struct {
	DB       int
	Key      string
	Mode     string        // as in Hold; empty for counters and latches
	Owner    string        // empty if it has no name
	Client   string        // "addr:port name"; empty for counters and latches
	ClientID int64         // 0 for them
	Waited   time.Duration // since its command began to wait; 0 if that has just ended
}

// Waiting shows what the current command of c waits for, without its client. ok is false if it does
// not wait for a lock, a permit, a counter or a latch. A LOCK.MACQUIRE shows the key that it waits
// for last, and with QUORUM none until it waits for one. It does not block and is safe for
// concurrent use.
func Waiting(c *acquire.Carrier) (v Waiter, ok bool) {
	wt := c.WaitsFor()
	since, waits := c.Waits()
	if !waits || wt == nil {
		return v, false
	}
	v, _ = viewRequest(wt.Queue.Lock, wt.Request)
	v.Waited = time.Since(since)
	return v, true
}

// viewRequest returns what is fixed of a request for a lock, and its carrier; nil for counters and
// latches.
func viewRequest(lock script.Lock, request wait.Request[acquire.Result]) (v Waiter, c *acquire.Carrier) {
	v.DB, v.Key = lock.DB, lock.Key
	if r, ok := request.(acquire.Waiter); ok {
		var opts *acquire.Options
		c, opts = r.Waiter()
		v.Mode, v.Owner = opts.Mode.Name, opts.Owner
	}
	return v, c
}

func viewWaiter(w *wait.Waiter[acquire.Result]) Waiter {
	v, c := viewRequest(w.Lock, w.Request)
	if c == nil {
		return v
	}
	v.Client, v.ClientID = c.Client().Name, c.ClientID()
	if since, ok := c.Waits(); ok {
		v.Waited = time.Since(since)
	}
	return v
}
