package lockcmd

import (
	"time"

	"leash/internal/guard"
)

// reasonIdle is the reason for the loss of a hold whose client was silent for longer than IDLE
// allows.
const reasonIdle = "idle"

// idleConfirm is how long after a client was found idle it is looked again. What it has sent may
// have been taken from the socket by a goroutine that has not run since.
const idleConfirm = 200 * time.Millisecond

// IDLE catches clients that are frozen, or gone behind a balancer, while their connections live on.
// A carrier has one timer for all its holds with IDLE. It is set for when the first of them may be
// over, and looks then: what the client sends meanwhile costs nothing here.

// watchIdleLocked sees to it that h ends when its client is silent.
func (c *Carrier) watchIdleLocked(h *hold) {
	idle := h.readExtra().idle
	if idle == 0 {
		return
	}
	switch at := time.Now().Add(idle); {
	case c.idleTimer == nil:
		c.idleTimer = time.AfterFunc(idle, guard.Func(c.service.log, "IDLE", c.checkIdle))
		c.idleCheckAt = at
	case c.idleCheckAt.IsZero(), at.Before(c.idleCheckAt):
		c.idleTimer.Reset(idle)
		c.idleCheckAt = at
	}
}

// stopIdleTimerLocked ends the watch with the connection.
func (c *Carrier) stopIdleTimerLocked() {
	if c.idleTimer != nil {
		c.idleTimer.Stop()
	}
}

// checkIdle ends the holds for whose IDLE the client has been silent. All of them are marked
// before the first is told, which may end the connection: they are to be released then, for the
// client has agreed to it, and not to run out (R28).
func (c *Carrier) checkIdle() {
	silent := c.host.SilentSince()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idleCheckAt = time.Time{}
	if c.ended {
		return
	}
	var next time.Duration
	var over []*hold
	confirmed := !silent.IsZero() && silent.Equal(c.silentSince)
	c.silentSince = time.Time{}
	for _, h := range c.holdsLocked() {
		x := h.readExtra()
		if x.idle == 0 || x.idleOver {
			continue
		}
		left := idleLeft(x.idle, silent)
		if left <= 0 && !confirmed {
			left, c.silentSince = idleConfirm, silent
		}
		if left <= 0 {
			h.extra.idleOver = true
			over = append(over, h)
			continue
		}
		if next == 0 || left < next {
			next = left
		}
	}
	if next > 0 {
		c.idleCheckAt = time.Now().Add(next)
		c.idleTimer.Reset(next)
	}
	for _, h := range over {
		c.service.spawn(func() { h.evict(reasonIdle) })
	}
}

// idleLeft is for how long a client, silent since then, may go on so. One of which a command is
// under way cannot speak: its silence begins behind the answer, and that time is zero.
func idleLeft(idle time.Duration, silent time.Time) time.Duration {
	if silent.IsZero() {
		return idle
	}
	return idle - time.Since(silent)
}

// certainFor is for how long h cannot be lost, but by BREAK and what is done past Leash.
func (h *hold) certainFor() time.Duration {
	c := h.carrier
	left := time.Until(c.service.watchdog.Until(&h.watch))
	c.mu.Lock()
	x := h.readExtra()
	c.mu.Unlock()
	if x.idle > 0 {
		left = min(left, idleLeft(x.idle, c.host.SilentSince()))
	}
	if !x.maxHoldEnd.IsZero() {
		left = min(left, time.Until(x.maxHoldEnd))
	}
	return left
}
