package program

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// TestExitStatusOfACrash: the status is 0 after SIGTERM and 2 for bad settings. A process without
// memory ends by SIGABRT, with the stacks in its log.
func TestExitStatusOfACrash(t *testing.T) {
	t.Parallel()
	dir, redis := t.TempDir(), redistest.Start(t)
	binary := leashtest.Binary(t)
	start := func(name string, args ...string) (cmd *exec.Cmd, socket string, log *bytes.Buffer) {
		socket, log = filepath.Join(dir, name), &bytes.Buffer{}
		cmd = exec.CommandContext(t.Context(), binary, append([]string{"--listen", "unix:" + socket, "--upstream", redis.Addr}, args...)...)
		cmd.Stderr = log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, socket, log
	}
	dial := func(socket string) net.Conn {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			conn, err := net.Dial("unix", socket)
			if err == nil {
				t.Cleanup(func() { conn.Close() })
				return conn
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}

	cmd, _, _ := start("settings", "--watchdog-timeout", "x")
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 2 {
		t.Errorf("bad settings: %v, want status 2", cmd.ProcessState)
	}

	cmd, socket, _ := start("orderly")
	dial(socket).Close()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 0 {
		t.Errorf("SIGTERM: %v, want status 0", cmd.ProcessState)
	}

	cmd, socket, log := start("crash")
	conn := dial(socket)
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("+PONG\r\n"))); err != nil { // it has started
		t.Fatal(err)
	}
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: 1, Max: 1}, nil); err != nil {
		t.Skipf("no process's limits can be set here: %v", err)
	}
	go func() { // ends with the connection
		_, _ = io.WriteString(conn, redistest.Command("SET", "k", strings.Repeat("x", 200<<20)))
	}()
	_ = cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGABRT || status.CoreDump() {
		t.Errorf("a crash: %v, want an end by SIGABRT without a core", cmd.ProcessState)
	}
	text := log.String()
	// the collector of Go's runtime may meet the missing memory first
	if !strings.Contains(text, "fatal error") && !strings.Contains(text, "SIGSEGV: segmentation violation") || !strings.Contains(text, "goroutine ") {
		t.Errorf("a crash logged %.2000s", text)
	}
	_ = os.Remove(socket)
}
