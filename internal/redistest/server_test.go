package redistest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func TestServerAnswers(t *testing.T) {
	s := Start(t, "--maxmemory", "7mb")
	got, err := s.Client().ConfigGet(t.Context(), "maxmemory").Result()
	if err != nil || got["maxmemory"] != "7340032" {
		t.Fatalf("got %v, %v; want the argument's maxmemory", got, err)
	}
}

func TestBadArgumentIsReportedWithLog(t *testing.T) {
	_, err := Launch(Options{Args: []string{"--no-such-directive", "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Fatalf("got error %v, want one with the server's own words", err)
	}
}

func TestPassword(t *testing.T) {
	s, err := Launch(Options{Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	c := dial(t, s.Addr)
	if got, err := c.Do("PING"); err != nil || !strings.HasPrefix(got, "-NOAUTH ") {
		t.Fatalf("got %q, %v; want NOAUTH", got, err)
	}
	if got, err := c.Do("AUTH", "secret"); err != nil || got != "+OK\r\n" {
		t.Fatalf("got %q, %v; want OK", got, err)
	}
}

func TestPausedServerRunsNothing(t *testing.T) {
	s := Start(t)
	c := dial(t, s.Addr)
	for range 20 {
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		c.Timeout = 5 * time.Millisecond
		if err := c.Send(Command("PING")); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Read(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("paused server answered %q, %v", got, err)
		}
		if s.Running() {
			t.Fatal("a paused server counts as running")
		}
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		c.Timeout = 0
		if got, err := c.Read(); err != nil || got != "+PONG\r\n" {
			t.Fatalf("resumed server answered %q, %v", got, err)
		}
	}
}

func TestKillAndRestartKeepAddress(t *testing.T) {
	s := Start(t)
	c := dial(t, s.Addr)
	pid := s.Pid()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Read(); !errors.Is(err, io.EOF) && err == nil {
		t.Fatalf("got %q from a killed server", got)
	}
	if conn, err := net.Dial("tcp", s.Addr); err == nil {
		conn.Close()
		t.Fatal("a killed server accepts connections")
	}
	if err := s.Pause(); !errors.Is(err, ErrNotRunning) {
		t.Fatalf("got %v, want ErrNotRunning", err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got, err := dial(t, s.Addr).Do("PING"); err != nil || got != "+PONG\r\n" {
		t.Fatalf("got %q, %v from the restarted server", got, err)
	}
	if s.Pid() == pid {
		t.Fatal("the process is still the old one")
	}
}

func TestRestartOfRunningServerEmptiesIt(t *testing.T) {
	s := Start(t)
	if err := s.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Client().DBSize(context.Background()).Result(); n != 0 || err != nil {
		t.Fatalf("got %d keys, %v", n, err)
	}
}

func TestCloseOfPausedServerLeavesNothing(t *testing.T) {
	s, err := Launch(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal("second Close:", err)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("directory remains: %v", err)
	}
}

// dial returns a raw client that is closed at the test's end.
func dial(t *testing.T, addr string) *Client {
	t.Helper()
	c, err := Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
