package proxytest

import (
	"net"
	"testing"

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
