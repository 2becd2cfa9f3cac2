package lockcmd

import (
	"time"

	"leash/renewal"
)

// A session must not send anything to Redis once a lock that its client believes in may be somebody
// else's (R27). The watchdog tells of such a loss, but its goroutine may run late: after a SIGSTOP,
// on a starved machine. So whoever writes to Redis compares the time itself, right before the
// write.
//
// The carrier keeps one time for that: no later than the earliest end of its holds. Renewals do not
// touch it. When it has come, Settle looks up the real ends, which is at most about once in two
// thirds of a TTL.
//
// Two kinds of holds do not count. The end of a LEASE is known to the client and is no loss. With
// ONLOSS ERROR the client has asked to go on, and to be told when it next names the lock.

// SafeUntil is the time up to which all holds of the carrier are safe, as far as is known without
// asking further; nil when none of them ends the connection. From then on, call Settle before
// anything is sent to Redis for the connection. Until takes no lock. What it points to does not
// change.
func (c *Carrier) SafeUntil() *time.Time { return c.safeUntil.Load() }

// noteSafeUntilLocked notes that h is safe until then.
func (c *Carrier) noteSafeUntilLocked(h *hold, until time.Time) {
	if !h.endsConnection() {
		return
	}
	if known := c.safeUntil.Load(); known == nil || until.Before(*known) {
		c.safeUntil.Store(&until)
	}
}

// endsConnection reports whether the connection is closed when h is over.
func (h *hold) endsConnection() bool { return !h.lease && !h.errorOnLoss }

// CheckOverdue is Settle, if Until has come.
func (c *Carrier) CheckOverdue() {
	if until := c.SafeUntil(); until != nil && renewal.Left(*until) <= 0 {
		c.EndOverdue()
	}
}

// EndOverdue finds the holds of the carrier that are over by now and ends its connection because of
// them, as the watchdog would. Otherwise Until is later afterwards. It does not block.
func (c *Carrier) EndOverdue() {
	for _, h := range c.overdue() {
		h.Lost(renewal.ReasonSilence)
	}
}

// overdue are the holds that are over and that nobody has told of so far. Until is made that of the
// others.
func (c *Carrier) overdue() (over []*hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var earliest *time.Time
	for _, h := range c.holdsLocked() {
		if h.state != held && h.state != decrementing || !h.endsConnection() {
			continue
		}
		known := c.service.watchdog.Until(&h.watch)
		if known.IsZero() && h.state == decrementing { // its release keeps it, and adds it again
			continue
		}
		now := time.Now()
		until := now.Add(known.Sub(now)) // with what the clock on the wall says now
		switch {
		case !now.Before(until): // also one that the watchdog has given up and not told of yet
			over = append(over, h)
		case earliest == nil || until.Before(*earliest):
			earliest = &until
		}
	}
	c.safeUntil.Store(earliest)
	return over
}
