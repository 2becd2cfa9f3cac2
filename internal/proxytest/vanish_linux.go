package proxytest

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"leash/internal/redistest"
)

// SilentPeer opens a client connection whose host can vanish. It sends nothing by itself.
func SilentPeer(t *testing.T, l *Leash) (*redistest.Client, *net.TCPConn) {
	t.Helper()
	conn, err := (&net.Dialer{KeepAlive: -1}).Dial("tcp", l.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return redistest.NewClient(conn), conn.(*net.TCPConn)
}

// Vanish makes the kernel drop all packets for the connection before TCP sees them. To the other
// end, the host is gone.
func Vanish(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	dropAll := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	if err := errors.Join(raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &dropAll[0]})
	}), err); err != nil {
		t.Fatal(err)
	}
}
