package proxy

import (
	"net"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestTLSVanishedHost checks that a client with TLS whose host vanishes loses its lock (R29).
func TestTLSVanishedHost(t *testing.T) {
	t.Parallel() // it waits most of the time
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr}, watchdog(3*time.Second), func(o *options) {
		o.front.PeerTimeout = 4 * time.Second
	})
	c, conn := l.connect(t)
	token(t, c, "k")
	waiter, _ := l.connect(t)
	waiter.Timeout = time.Minute
	if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	vanish(t, conn.NetConn().(*net.TCPConn))
	if got, err := waiter.Read(); err != nil || got[0] != ':' {
		t.Errorf("got %q %v", got, err)
	}
}
