package proxytest

import (
	"bufio"
	"bytes"
	"net"
	"testing"
	"time"

	"leash/internal/redistest"
)

// ReadFull reads from the connection until p is full.
func ReadFull(c *redistest.Client, p []byte) (int, error) {
	for n := 0; n < len(p); {
		m, err := c.Conn().Read(p[n:])
		if err != nil {
			return n, err
		}
		n += m
	}
	return len(p), nil
}

// Send sends raw bytes.
func Send(t testing.TB, c *redistest.Client, raw string) {
	t.Helper()
	if err := c.Send(raw); err != nil {
		t.Fatal(err)
	}
}

// Dial opens a connection that the test closes at its end.
func Dial(t testing.TB, addr string) *redistest.Client {
	t.Helper()
	c, err := redistest.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Exchange sends raw bytes, half-closes, and returns all bytes until the server closes.
func Exchange(t testing.TB, addr, raw string) string {
	t.Helper()
	return ExchangePieces(t, addr, raw, len(raw))
}

// ExchangePieces is Exchange with a request that comes in two pieces, the first of cut bytes.
func ExchangePieces(t testing.TB, addr, raw string, cut int) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	for _, piece := range []string{raw[:cut], raw[cut:]} {
		if piece != "" {
			// The server may have closed already; the bytes that it sent count.
			_, _ = conn.Write([]byte(piece))
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	var out bytes.Buffer
	_, _ = bufio.NewReader(conn).WriteTo(&out)
	return out.String()
}

// Eventually polls until ok, failing the test after a minute.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second) // a second link of a lane stays open for 30 s
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // between looks, not for an event
	}
}

// WantClosed checks that Leash has closed a client's connection.
func WantClosed(t *testing.T, c *redistest.Client) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; {
		if _, err := c.Do("PING"); err != nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the connection is still open")
		}
	}
}

// WantRead reads one frame and checks it.
func WantRead(t testing.TB, c *redistest.Client, w string) {
	t.Helper()
	if got, err := c.Read(); err != nil || got != w {
		t.Fatalf("got %.200q %v, want %.200q", got, err, w)
	}
}
