package client

import (
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keepAliveFor returns settings with which the kernel ends a connection whose peer has been silent
// for d. d is rounded up to seconds, the kernel's unit, and is at least 4 s. Three probes go out,
// about 2/11 of d apart. The connection ends when the last one is not answered.
func keepAliveFor(d time.Duration) net.KeepAliveConfig {
	whole := (d + time.Second - 1).Truncate(time.Second)
	apart := max((whole * 2 / 11).Truncate(time.Second), time.Second)
	return net.KeepAliveConfig{Enable: true, Idle: whole - 3*apart, Interval: apart, Count: 3}
}

// setKeepAlive sets when the kernel notices that a peer has vanished: after timeout, or by the
// defaults of package net if that is 0.
func (c *Conn) setKeepAlive(timeout time.Duration) {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return
	}
	cfg := net.KeepAliveConfig{Enable: true} // the package's defaults
	if timeout > 0 {
		cfg = keepAliveFor(timeout)
	}
	_ = tcp.SetKeepAliveConfig(cfg)
}

// unansweredProbes is how many probes in a row must be unanswered before they count. The network
// may lose a single probe.
const unansweredProbes = 3

// acknowledged reports whether the peer owes an ACK and how long ago the last one came. It owes one
// for sent data. It also owes one for window probes, which the kernel sends while the peer does not
// read and has no room. There are no keepalives in that state, and the kernel would probe for a
// quarter of an hour.
func (c *Conn) acknowledged() (unacked bool, ackAge time.Duration) {
	if _, ok := c.Conn.(*net.TCPConn); !ok {
		return false, 0
	}
	_ = c.raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil && n == 0 {
			// The peer nearly always has acknowledged everything. This check avoids a TCPInfo,
			// which is 250 bytes of garbage.
			return
		}
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			unacked = info.Unacked > 0 || info.Probes >= unansweredProbes
			ackAge = time.Duration(info.Last_ack_recv) * time.Millisecond
		}
	})
	return unacked, ackAge
}

// HasUnread reports whether the socket has bytes of the client that Leash has not read.
func (c *Conn) HasUnread() (some bool) {
	_ = c.raw.Control(func(fd uintptr) {
		n, err := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		some = err == nil && n > 0
	})
	return some
}

// Gather lets reads wait until the socket has n bytes, or until the connection has ended. So a
// client that sends much while it has to wait wakes nobody with each packet. 1 is the usual value.
func (c *Conn) Gather(n int) {
	_ = c.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, n) })
}

// PeerGone asks the socket whether the peer has closed the connection (io.EOF) or reset it
// (ECONNRESET). Unread data before the end does not matter. It returns nil if the connection is
// open.
func (c *Conn) PeerGone() (gone error) {
	_ = c.raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(fds, 0)
		switch {
		case err != nil || n == 0:
		case fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			// Both directions have ended, which a FIN alone does not do.
			gone = syscall.ECONNRESET
		case fds[0].Revents&unix.POLLRDHUP != 0:
			gone = io.EOF
		}
	})
	return gone
}
