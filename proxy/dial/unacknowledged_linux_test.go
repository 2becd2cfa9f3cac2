package dial_test

import (
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/dial"
)

// TestForgottenConnectionEnds: A firewall forgets one connection. What was sent there is never
// acknowledged, and the connection ends.
func TestForgottenConnectionEnds(t *testing.T) {
	t.Parallel()
	redis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	d := dial.New(dial.Config{}, false, nil, slog.New(slog.DiscardHandler))
	conn, err := d.OpenFor(t.Context(), redis.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	far, err := redis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	redistest.Vanish(t, far.(*net.TCPConn))
	if _, err := conn.Write(dial.PingRequest); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err = conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("got %v, want %v", err, syscall.ETIMEDOUT)
	}
}
