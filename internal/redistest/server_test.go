package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
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
		t.Fatalf("got error %v, want one with the server's log", err)
	}
}

func TestPassword(t *testing.T) {
	s, err := Launch(Options{Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := Connect(t, s.Addr)
	if got := c.Do("PING"); !strings.HasPrefix(got, "-NOAUTH ") {
		t.Fatalf("got %q, want NOAUTH", got)
	}
	c.Want("+OK\r\n", "AUTH", "secret")
}

func TestPausedServerRunsNothing(t *testing.T) {
	s := Start(t)
	c := Connect(t, s.Addr)
	for range 20 {
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		c.Send(Command("PING"))
		c.WantSilence(5 * time.Millisecond)
		if s.Running() {
			t.Fatal("a paused server counts as running")
		}
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		c.WantRead("+PONG\r\n")
	}
}

func TestKillAndRestartKeepAddress(t *testing.T) {
	s := Start(t)
	c := Connect(t, s.Addr)
	pid := s.Pid()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	c.WantClosed()
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
	Connect(t, s.Addr).Want("+PONG\r\n", "PING")
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

// TestServersEndWithTheirParent starts a process that launches a server and dies without closing
// it. The server must end too.
func TestServersEndWithTheirParent(t *testing.T) {
	if os.Getenv("REDISTEST_ORPHAN") != "" {
		s, err := Launch(Options{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(s.Addr)
		os.Stdout.Sync()
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestServersEndWithTheirParent$")
	parent.Env = append(os.Environ(), "REDISTEST_ORPHAN=1", "TMPDIR="+t.TempDir())
	out, _ := parent.Output()
	addr := strings.TrimSpace(string(out))
	if !strings.HasPrefix(addr, "127.0.0.1:") {
		t.Fatalf("got %q from the parent", out)
	}
	err := poll(5*time.Second, func() error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil
		}
		conn.Close()
		return errors.New("the server outlives its parent")
	})
	if err != nil {
		t.Fatal(err)
	}
}
