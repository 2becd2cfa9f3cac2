package client_test

import (
	"net"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestTLSVanishedHost checks that a client with TLS whose host vanishes loses its lock (R29).
func TestTLSVanishedHost(t *testing.T) {
	t.Parallel() // it waits most of the time
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr}, proxytest.Watchdog(3*time.Second), func(o *proxytest.Options) {
		o.Front.PeerTimeout = 4 * time.Second
	})
	c, conn := l.connect(t)
	proxytest.Token(t, c, "k")
	waiter, _ := l.connect(t)
	waiter.Timeout = time.Minute
	if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	redistest.Vanish(t, conn.NetConn().(*net.TCPConn))
	if got, err := waiter.Read(); err != nil || got[0] != ':' {
		t.Errorf("got %q %v", got, err)
	}
}
