package client_test

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestTLSDroppedInAnyState drops connections at every stage, with TLS and without. Leash then
// has about as many goroutines as before, and a client beside them is served. Connections to Redis
// that were in use stay for a while.
func TestTLSDroppedInAnyState(t *testing.T) {
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	l := startTLS(t, []string{redis.Addr})
	steady, _ := l.connect(t)
	steady.Want(t, "+PONG\r\n", "PING")
	before := runtime.NumGoroutine()
	var dropping sync.WaitGroup
	for worker := range 4 {
		dropping.Go(func() {
			for i := range 500 {
				l.drop(t, worker+4*i)
			}
		})
	}
	dropped := make(chan struct{})
	go func() { dropping.Wait(); close(dropped) }()
	for served := false; !served; {
		select {
		case <-dropped:
			served = true
		default:
			steady.Want(t, "+PONG\r\n", "PING")
		}
	}
	proxytest.Eventually(t, "the sessions end", func() bool { return l.Clients() == 1 })
	proxytest.Eventually(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before+200 })
}

// drop opens a connection and ends it in the state that n stands for.
func (s *tlsLeash) drop(t *testing.T, n int) {
	addr := s.TLS
	if n%3 == 0 {
		addr = s.Addr
	}
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer raw.Close()
	if n%2 == 0 {
		_ = raw.(*net.TCPConn).SetLinger(0)
	}
	conn := raw
	if addr == s.TLS {
		secure := tls.Client(raw, s.client)
		if n%5 == 0 {
			_, _ = raw.Write([]byte("\x16\x03\x01"))
			return
		}
		if err := secure.Handshake(); err != nil {
			t.Error(err)
			return
		}
		conn = secure
	}
	commands := []string{
		"", "*1\r\n$4\r\nPI", redistest.Command("PING"), redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0"),
		redistest.Command("BLPOP", "list", "0"), redistest.Command("SUBSCRIBE", "news"), redistest.Command("MULTI"),
	}
	_, _ = io.WriteString(conn, commands[n%len(commands)])
	if n%4 < 2 && n%len(commands) == 2 {
		_, _ = conn.Read(make([]byte, 16))
	}
}
