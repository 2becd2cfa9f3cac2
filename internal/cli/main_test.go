package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// soon is an upper limit for what nothing delays, on a busy machine.
const soon = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(leashtest.Main(m)) }

// startLeash runs a Leash before that Redis.
func startLeash(t *testing.T, redis *redistest.Server, flags ...string) *leashtest.Leash {
	t.Helper()
	l, err := leashtest.Start(t.Context(), leashtest.Binary(t), t.TempDir(), append(flags, "--upstream", redis.Addr)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	return l
}

// run is one running command of the binary.
type run struct {
	t      *testing.T
	cmd    *exec.Cmd
	mu     sync.Mutex
	stdout bytes.Buffer
	stderr bytes.Buffer
	done   chan struct{}
	err    error
}

// start runs leash with these arguments against the Leashes.
func start(t *testing.T, servers string, args ...string) *run {
	t.Helper()
	r := &run{t: t, cmd: exec.Command(leashtest.Binary(t), args...), done: make(chan struct{})}
	r.cmd.Env = append(os.Environ(), ServerVariable+"="+servers)
	r.cmd.Stdin = strings.NewReader("from stdin\n")
	r.cmd.Stdout, r.cmd.Stderr = &writer{r, &r.stdout}, &writer{r, &r.stderr}
	r.cmd.WaitDelay = 5 * time.Second // a program that outlives leash keeps the pipes open
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		r.err = r.cmd.Wait()
	}()
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		<-r.done
	})
	return r
}

// writer is one output of a run.
type writer struct {
	r   *run
	buf *bytes.Buffer
}

func (w *writer) Write(p []byte) (int, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	return w.buf.Write(p)
}

// out is what the run has printed so far.
func (r *run) out() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stdout.String()
}

func (r *run) errors() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stderr.String()
}

// status waits for the end and returns the exit status.
func (r *run) status() int {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(2 * soon):
		r.t.Fatalf("it does not end: %s%s", r.out(), r.errors())
	}
	var exit *exec.ExitError
	if errors.As(r.err, &exit) {
		return exit.ExitCode()
	}
	if r.err != nil {
		r.t.Fatal(r.err)
	}
	return 0
}

// want waits for the end and checks the exit status and what was printed.
func (r *run) want(status int, out string) {
	r.t.Helper()
	if got := r.status(); got != status || r.out() != out {
		r.t.Errorf("got status %d, %q, %q, want %d, %q", got, r.out(), r.errors(), status, out)
	}
}

// says waits until a line is printed and returns it.
func (r *run) says() string {
	r.t.Helper()
	line := ""
	eventually(r.t, "it prints a line", func() bool {
		text, _, whole := strings.Cut(r.out(), "\n")
		line = text
		return whole
	})
	return line
}

// pid waits until a number is printed and returns it.
func (r *run) pid() int {
	r.t.Helper()
	n, err := strconv.Atoi(r.says())
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "the process ends", func() bool { return !alive(pid) })
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ") // a zombie has ended
}

// send sends one command to a server and returns the reply.
func send(t *testing.T, addr string, args ...string) string {
	t.Helper()
	c, err := redistest.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reply, err := c.Do(args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(reply)
}
