package client

import "time"

// Guard says whether the connection has holds or waiters. With either, a vanished peer must be
// noticed within the peer timeout. RelaxKeepAlive makes the keepalive intervals long again, because
// many clients soon take a lock again.
func (c *Conn) Guard(on bool) {
	c.guarded.Store(on)
	if !on {
		return
	}
	c.keepMu.Lock()
	defer c.keepMu.Unlock()
	if !c.probesOften {
		c.probesOften = true
		c.setKeepAlive(true)
	}
}

// Guarded reports whether the connection has holds or waiters.
func (c *Conn) Guarded() bool { return c.guarded.Load() }

// RelaxKeepAlive restores the usual keepalive intervals of a connection without holds and waiters.
func (c *Conn) RelaxKeepAlive() {
	c.keepMu.Lock()
	defer c.keepMu.Unlock()
	if c.probesOften && !c.guarded.Load() {
		c.probesOften = false
		c.setKeepAlive(false)
	}
}

// PeerSilent reports whether a guarded peer has left data unacknowledged for longer than the peer
// timeout. A live peer that does not read still answers window probes, so its last ACK is recent
// (rule R29). After a quiet hour, the last ACK is old when new data is sent. So the time counts
// from when the data was first seen unacknowledged. One goroutine calls it, once a second.
func (c *Conn) PeerSilent(now time.Time) bool {
	if !c.guarded.Load() {
		return false
	}
	unacked, ackAge := c.acknowledged()
	if !unacked {
		c.unackedSince = time.Time{}
		return false
	}
	if c.unackedSince.IsZero() {
		c.unackedSince = now
	}
	return ackAge > c.peerTimeout && now.Sub(c.unackedSince) > c.peerTimeout
}
