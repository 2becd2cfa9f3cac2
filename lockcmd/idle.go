package lockcmd

import (
	"time"

	"leash/internal/guard"
)

// reasonIdle is the reason for a loss because the client was silent for longer than IDLE.
const reasonIdle = "idle"

// idleConfirm is when an idle client is checked again. A goroutine may have read its command from
// the socket and not have run since.
const idleConfirm = 200 * time.Millisecond

// IDLE catches clients that are frozen, or vanished behind a load balancer, while their connections
// live. A carrier has one timer for all its holds with IDLE. It fires when the first of them may be
// over. What the client sends before that costs nothing here.

// watchIdleLocked starts IDLE for h.
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

// stopIdleTimerLocked stops the timer when the connection ends.
func (c *Carrier) stopIdleTimerLocked() {
	if c.idleTimer != nil {
		c.idleTimer.Stop()
	}
}

// checkIdle ends the holds whose IDLE is over. It takes all of them before the first loss is
// reported, because that may end the connection. The client has agreed to IDLE, so they are
// released instead of left to expire (R28).
func (c *Carrier) checkIdle() {
	silent := c.silence.SilentSince()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idleCheckAt = time.Time{}
	if c.ended {
		return
	}
	var next time.Duration
	var changes []change
	confirmed := !silent.IsZero() && silent.Equal(c.silentSince)
	c.silentSince = time.Time{}
	for _, h := range c.holdsLocked() {
		idle := h.readExtra().idle
		if idle == 0 || h.state == ending {
			continue
		}
		left := idleLeft(idle, silent)
		if left <= 0 && !confirmed {
			left, c.silentSince = idleConfirm, silent
		}
		if left <= 0 {
			if ch, ok := h.evictLocked(reasonIdle); ok {
				changes = append(changes, ch)
				continue
			}
			left = idleConfirm // a release is in progress
		}
		if next == 0 || left < next {
			next = left
		}
	}
	if next > 0 {
		c.idleCheckAt = time.Now().Add(next)
		c.idleTimer.Reset(next)
	}
	if len(changes) > 0 {
		c.service.spawn(func() { c.service.follow(time.Time{}, changes...) })
	}
}

// idleLeft is how long a client that is silent since then may go on so. silent is zero while a
// command is in progress: the client's silence begins after the answer.
func idleLeft(idle time.Duration, silent time.Time) time.Duration {
	if silent.IsZero() {
		return idle
	}
	return idle - time.Since(silent)
}
