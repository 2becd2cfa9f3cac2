package redistest

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Vanish makes the kernel drop all packets for the connection before TCP sees them. To the other
// end, the host is gone.
func Vanish(tb testing.TB, conn *net.TCPConn) {
	tb.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		tb.Fatal(err)
	}
	var refused error
	dropAll := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &dropAll[0]})
	})
	if err = errors.Join(err, refused); err != nil {
		tb.Fatal(err)
	}
}
