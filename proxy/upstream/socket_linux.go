package upstream

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// giveUpOnSilence makes the kernel end a connection whose peer acknowledges
// nothing of what was sent for the upstream time-out: keepalive does not look
// while data is under way, and the kernel by itself tries for a quarter of an
// hour.
func (u *Upstream) giveUpOnSilence(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(u.cfg.UpstreamTimeout.Milliseconds()))
	})
}
