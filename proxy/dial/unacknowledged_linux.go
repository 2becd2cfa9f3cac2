package dial

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endUnacknowledged lets the kernel end a connection whose other end has acknowledged nothing for d
// of what was sent. A firewall may have forgotten this connection alone, while the node answers on
// others. The kernel's own limit is a quarter of an hour. A server that is only slow, or frozen,
// acknowledges. https://man7.org/linux/man-pages/man7/tcp.7.html, TCP_USER_TIMEOUT.
func endUnacknowledged(d time.Duration) func(network, addr string, socket syscall.RawConn) error {
	return func(_, _ string, socket syscall.RawConn) error {
		var refused error
		err := socket.Control(func(fd uintptr) {
			refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
		})
		return errors.Join(err, refused)
	}
}
