//go:build !linux

package client

import (
	"net"
	"time"
)

// On other systems than Linux, Leash relies on the kernel's keepalive only.

func (c *Conn) setKeepAlive(timeout time.Duration) {
	if tcp, ok := c.Conn.(*net.TCPConn); ok && timeout > 0 {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second,
			Interval: 2 * time.Second, Count: 3})
	}
}

func (c *Conn) acknowledged() (unacked bool, ackAge time.Duration) { return false, 0 }

func (c *Conn) HasUnread() bool { return false }

func (c *Conn) Gather(n int) {}

func (c *Conn) PeerGone() error { return nil }
