package links

import (
	"io"
	"net"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/dial"
)

// TestForgottenPings: A firewall forgets the connection for PINGs, and the node answers on new
// ones. Long before the upstream time-out, it counts as alive again.
func TestForgottenPings(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			accepted <- conn
			go answerPings(conn)
		}
	}()
	n := startWith(t, ln.Addr().String(), dial.Config{UpstreamTimeout: 2 * time.Minute}, Hooks{})
	first := <-accepted
	await := func(what string, done func() bool) {
		t.Helper()
		for began := time.Now(); !done(); time.Sleep(time.Millisecond) {
			if time.Since(began) > 30*time.Second {
				t.Fatal(what)
			}
		}
	}
	await("the node does not count as alive", n.Usable)
	redistest.Vanish(t, first.(*net.TCPConn))
	await("the node does not count as silent", n.Unresponsive)
	await("the node does not count as alive again", func() bool { return n.Usable() && !n.Unresponsive() })
}

// answerPings answers whatever comes.
func answerPings(conn net.Conn) {
	defer conn.Close()
	for buf := make([]byte, 512); ; {
		if _, err := conn.Read(buf); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "+PONG\r\n")
	}
}
