package program

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(leashtest.Main(m)) }

func TestHelpAndVersion(t *testing.T) {
	for flag, want := range map[string]string{"--help": "--watchdog-timeout", "--version": "leash "} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{flag}, nil, &out, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, %q", flag, err, out.String())
		}
	}
}

func TestBadUsage(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"--watchdog-timeout", "soon"}, nil, &out, &out)
	if exitCode(err) != 2 || !strings.Contains(err.Error(), "--watchdog-timeout") {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
}

func TestUpstreamThatIsNotThere(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"--listen", redistest.FreeAddr(t), "--upstream", "127.0.0.1:1",
		"--wait-for-upstream", "0", "--redirect-timeout", "100ms"}, nil, &out, &out)
	if exitCode(err) != 1 || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
}

// TestStopBeforeReady: a stop before Redis answers is an orderly end.
func TestStopBeforeReady(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := ln.Accept(); err == nil {
			defer c.Close()
			stop()
			io.Copy(io.Discard, c)
		}
	}()
	defer func() {
		ln.Close()
		<-done
	}()
	var out bytes.Buffer
	err = run(ctx, []string{"--listen", redistest.FreeAddr(t), "--upstream", ln.Addr().String(),
		"--upstream-timeout", "1m"}, nil, &out, &out)
	if exitCode(err) != 0 || !strings.Contains(out.String(), "leash has stopped before it was ready") {
		t.Errorf("exit code %d: %v; it said %s", exitCode(err), err, out.String())
	}
}

func TestPortThatIsTaken(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var out bytes.Buffer
	err = run(t.Context(), []string{"--listen", ln.Addr().String()}, nil, &out, &out)
	if exitCode(err) != 1 || !strings.Contains(err.Error(), "--listen "+ln.Addr().String()) {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
}

// TestTheMainJob runs the program on its embedded Redis, runs the README's exchange, and stops it.
func TestTheMainJob(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "leash.sock")
	ctx, stop := context.WithCancel(t.Context())
	var out safeBuffer
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, nil, []string{"LEASH_LISTEN=unix:" + socket, "LEASH_DRAIN_TIMEOUT=100ms"}, &out, &out)
	}()
	client := dialUnix(t, socket)
	for _, step := range []struct{ command, want string }{
		{"LOCK.ACQUIRE order:42", ":"},
		{"SET stock:42 7", "+OK\r\n"},
		{"LOCK.RELEASE order:42", ":1\r\n"},
		{"GET stock:42", "$1\r\n7\r\n"},
		{"LOCK.ACQUIRE order:42", ":"},
	} {
		got, err := client.Do(strings.Fields(step.command)...)
		if err != nil || !strings.HasPrefix(got, step.want) {
			t.Fatalf("%s: got %q %v, want %q", step.command, got, err, step.want)
		}
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Leash does not stop")
	}
	if err := client.AwaitEnd(); err != nil {
		t.Error(err)
	}
	if log := out.String(); !strings.Contains(log, "embedded Redis") || !strings.Contains(log, "leash is ready") {
		t.Errorf("it said %q", log)
	}
}

func dialUnix(t *testing.T, socket string) *redistest.Client {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			t.Cleanup(func() { conn.Close() })
			return redistest.NewClient(conn)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestSignals builds the program, runs it in front of a cluster and ends it by SIGTERM.
func TestSignals(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	bin := leashtest.Binary(t)
	socket := filepath.Join(t.TempDir(), "leash.sock")
	cmd := exec.CommandContext(t.Context(), bin, "--listen", "unix:"+socket, "--upstream", strings.Join(c.Addrs(), ","), "--log-format", "json", "--drain-timeout", "100ms")
	var out safeBuffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := dialUnix(t, socket)
	for i := range 100 {
		if got, err := client.Do("SET", fmt.Sprint("k", i), "v"); got != "+OK\r\n" {
			t.Fatal(got, err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
	if !strings.Contains(out.String(), `"msg":"leash has stopped"`) {
		t.Errorf("it said %s", out.String())
	}
}

// TestR31SecondSignalEndsAtOnce: a second signal ends Leash without waiting for holders. Their
// locks run out.
func TestR31SecondSignalEndsAtOnce(t *testing.T) {
	server := redistest.Start(t)
	bin := leashtest.Binary(t)
	socket := filepath.Join(t.TempDir(), "leash.sock")
	cmd := exec.CommandContext(t.Context(), bin, "--listen", "unix:"+socket, "--upstream", server.Addr, "--drain-timeout", "1h")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if got, err := dialUnix(t, socket).Do("LOCK.ACQUIRE", "k"); err != nil || got[0] != ':' {
		t.Fatal(got, err)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for sent, start := 0, time.Now(); ; {
		if err := cmd.Process.Signal(syscall.SIGTERM); err == nil {
			sent++
		}
		select {
		case <-tick.C:
			// before the next signal: this one may have come before Leash handled the first
			if time.Since(start) > time.Minute {
				t.Fatalf("after %d signals it still runs", sent)
			}
			continue
		case <-ended:
		}
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if sent < 2 || status.Signal() != syscall.SIGTERM {
			t.Errorf("%d signals, ended with %v", sent, cmd.ProcessState)
		}
		break
	}
	if server.Client().Exists(t.Context(), "k").Val() != 1 {
		t.Error("the lock is free although its holder may still work")
	}
}

// safeBuffer is a bytes.Buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
