package client

import "time"

// Guard says whether the connection has holds or waiters. With either, a vanished peer must be
// noticed within the peer timeout. UpdateKeepAlive makes the keepalive intervals long again,
// because many clients soon take a lock again.
func (c *Conn) Guard(on bool) {
	c.guarded.Store(on)
	if !on {
		return
	}
	c.keepMu.Lock()
	defer c.keepMu.Unlock()
	if c.probesFor == 0 {
		c.probesFor = c.peerTimeout()
		c.setKeepAlive(c.probesFor)
	}
}

// Guarded reports whether the connection has holds or waiters.
func (c *Conn) Guarded() bool { return c.guarded.Load() }

// UpdateKeepAlive makes the keepalive intervals long again when the connection has no holds and no
// waiters any more. It makes them anew when the peer timeout has changed.
func (c *Conn) UpdateKeepAlive() {
	c.keepMu.Lock()
	defer c.keepMu.Unlock()
	var wanted time.Duration
	if c.guarded.Load() {
		wanted = c.peerTimeout()
	}
	if c.probesFor != 0 && c.probesFor != wanted {
		c.probesFor = wanted
		c.setKeepAlive(wanted)
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
	timeout := c.peerTimeout()
	return ackAge > timeout && now.Sub(c.unackedSince) > timeout
}
