package proxy

import (
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keepAliveFor finds a vanished peer when it has been silent for d, rounded up
// to seconds, in which the kernel counts, and no sooner: the last of three
// probes, about 2/11 of it apart, is given up then. d is at least 4 s.
func keepAliveFor(d time.Duration) net.KeepAliveConfig {
	whole := (d + time.Second - 1).Truncate(time.Second)
	apart := max((whole * 2 / 11).Truncate(time.Second), time.Second)
	return net.KeepAliveConfig{Enable: true, Idle: whole - 3*apart, Interval: apart, Count: 3}
}

// setKeepAlive makes the kernel find a vanished peer soon, or in its usual time.
func (c *conn) setKeepAlive(tight bool) {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return
	}
	cfg := net.KeepAliveConfig{Enable: true} // the package's defaults
	if tight {
		cfg = keepAliveFor(c.session.server.cfg.PeerTimeout)
	}
	_ = tcp.SetKeepAliveConfig(cfg)
}

// unansweredProbes is how many probes in a row must go without an answer to be
// a sign, as of keepalives; one alone may have been lost on its way.
const unansweredProbes = 3

// acknowledged reports whether the peer owes an ACK and how long ago the last one came. It owes one
// for sent data. It also owes one for window probes, which the kernel sends while the peer does not
// read and has no room. There are no keepalives in that state, and the kernel would probe for a
// quarter of an hour.
func (c *conn) acknowledged() (unacked bool, ackAge time.Duration) {
	if _, ok := c.Conn.(*net.TCPConn); !ok {
		return false, 0
	}
	_ = c.raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil && n == 0 {
			// it has acknowledged everything that there is, as nearly always; a TCPInfo is 250
			// bytes of garbage
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

// hasUnread reports whether bytes of the client wait in the socket.
func (c *conn) hasUnread() (some bool) {
	_ = c.raw.Control(func(fd uintptr) {
		n, err := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		some = err == nil && n > 0
	})
	return some
}

// peerGone asks the socket whether the peer has closed (io.EOF) or reset
// (ECONNRESET) the connection, however much unread data lies before that; nil
// when it has not.
func (c *conn) peerGone() (gone error) {
	_ = c.raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(fds, 0)
		switch {
		case err != nil || n == 0:
		case fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			// both directions are over: not by a FIN
			gone = syscall.ECONNRESET
		case fds[0].Revents&unix.POLLRDHUP != 0:
			gone = io.EOF
		}
	})
	return gone
}
