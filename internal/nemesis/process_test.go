package main

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"leash/internal/nemesis/history"
	"leash/internal/redistest"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(relayVariable); addr != "" {
		_ = relay(addr)
		return
	}
	os.Exit(m.Run())
}

// TestClientInAProcess: bytes pass through the process in both directions. The process can be
// stopped. When it is killed, the connections at both ends are closed.
func TestClientInAProcess(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p, conn, err := startProcess(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	here := &client{redistest.NewClient(conn), p, history.LeashName(0)}
	defer here.Close()
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	there := redistest.NewClient(accepted)
	defer there.Close()
	for range 2 {
		if err := here.Send("+ping\r\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := there.Read(); got != "+ping\r\n" || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
		if err := there.Send("+pong\r\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := here.Read(); got != "+pong\r\n" || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.kill() // it is still stopped
	if got, err := there.Read(); got != "" || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("there: got %q, %v", got, err)
	}
	if _, _, err := here.do(time.Now().Add(10*time.Second), "PING"); err == nil || isTimeout(err) {
		t.Errorf("here: got %v", err)
	}
}

func TestTokensOf(t *testing.T) {
	for reply, want := range map[string][]string{
		":7": {"7"}, "$3\r\nabc": {"abc"}, "*3\r\n:7\r\n$-1\r\n:8": {"7", "", "8"}, "*2\r\n$2\r\n:7\r\n$1\r\nx": {":7", "x"}, "": nil, "*-1": nil,
	} {
		if got := tokensOf(reply); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", reply, got, want)
		}
	}
}
