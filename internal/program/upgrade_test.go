package program

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// service runs Leash as systemd does: with a socket that outlives each process, and another one to
// which the process reports.
type service struct {
	t      *testing.T
	bin    string
	args   []string
	socket *os.File
	addr   string
	report *net.UnixConn
	cmd    *exec.Cmd
	log    safeBuffer
}

func newService(t *testing.T, args ...string) *service {
	s := &service{t: t, args: args}
	dir := t.TempDir()
	s.bin = leashtest.Binary(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s.addr = ln.Addr().String()
	if s.socket, err = ln.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	s.report, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.socket.Close(); s.report.Close() })
	return s
}

// start starts a process and waits until it has reported READY=1.
func (s *service) start() {
	s.t.Helper()
	// systemd names the process that the sockets are for, so the shell does it before it becomes it
	args := append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, s.bin, "--listen", s.addr}, s.args...)
	s.cmd = exec.CommandContext(s.t.Context(), "sh", args...)
	s.cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "NOTIFY_SOCKET="+s.report.LocalAddr().String(), "WATCHDOG_USEC=2000000")
	s.cmd.ExtraFiles, s.cmd.Stderr = []*os.File{s.socket}, &s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.reported("READY=1")
}

// reported waits for a report.
func (s *service) reported(want string) {
	s.t.Helper()
	_ = s.report.SetReadDeadline(time.Now().Add(30 * time.Second))
	for buf := make([]byte, 256); ; {
		n, err := s.report.Read(buf)
		if err != nil {
			s.t.Fatalf("no %s: %v\n%s", want, err, s.log.String())
		}
		if string(bytes.TrimSpace(buf[:n])) == want {
			return
		}
	}
}

// stop ends the process.
func (s *service) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	s.reported("STOPPING=1")
	if err := s.cmd.Wait(); err != nil {
		s.t.Fatalf("%v\n%s", err, s.log.String())
	}
}

// arrivals are clients that come, ask once and go, until stop is closed.
type arrivals struct {
	refused, served atomic.Int64
	problem         atomic.Value // string
	wait            sync.WaitGroup
}

func (a *arrivals) start(addr string, stop <-chan struct{}) {
	for range 4 {
		a.wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					a.visit(addr)
				}
			}
		})
	}
}

// visit is one client. A Leash that stops may close a connection that has not asked anything yet.
func (a *arrivals) visit(addr string) {
	c, err := redistest.Dial(addr)
	if err != nil {
		a.refused.Add(1)
		a.problem.Store(err.Error())
		return
	}
	defer c.Close()
	if got, err := c.Do("PING"); err == nil && got == "+PONG\r\n" {
		a.served.Add(1)
	} else if err == nil && !strings.HasPrefix(got, "-LOADING ") {
		a.problem.Store(got)
	}
}

// restarts is how often TestRestartsOnASocketOfSystemd restarts Leash; SYSTEMD_RESTARTS sets it.
func restarts() int {
	if n, err := strconv.Atoi(os.Getenv("SYSTEMD_RESTARTS")); err == nil {
		return n
	}
	return 4
}

// TestRestartsOnASocketOfSystemd restarts Leash while clients come and go. None is refused, and an
// owner that attaches again keeps its lock and its token.
func TestRestartsOnASocketOfSystemd(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := newService(t, "--upstream", redis.Addr, "--drain-timeout", "100ms")
	s.start()
	stop := make(chan struct{})
	var a arrivals
	a.start(s.addr, stop)
	owner := s.dial()
	token := strings.TrimPrefix(do(t, owner, "LOCK.ACQUIRE", "k", "OWNER", "billing:7", "ONCLOSE", "EXPIRE"), ":")
	token = strings.TrimSpace(token)
	for i := range restarts() {
		s.stop()
		s.start()
		owner = s.dial()
		if got := do(t, owner, "LOCK.ATTACH", "k", "OWNER", "billing:7", "TOKEN", token); got != ":"+token+"\r\n" {
			t.Fatalf("restart %d: LOCK.ATTACH gives %q, the token is %s", i, got, token)
		}
		if got := do(t, s.dial(), "LOCK.ACQUIRE", "k"); got != "$-1\r\n" {
			t.Fatalf("restart %d: another client gets %q", i, got)
		}
	}
	close(stop)
	a.wait.Wait()
	if n := a.refused.Load(); n > 0 {
		t.Errorf("%d clients were refused: %v", n, a.problem.Load())
	}
	if p := a.problem.Load(); p != nil {
		t.Errorf("a client got %v", p)
	}
	t.Logf("%d restarts, %d clients served", restarts(), a.served.Load())
	if a.served.Load() == 0 {
		t.Error("no client was served")
	}
	s.reported("WATCHDOG=1")
	s.stop()
}

// TestSocketOfSystemdForNobody checks that Leash does not leave clients of a socket waiting.
func TestSocketOfSystemdForNobody(t *testing.T) {
	t.Parallel()
	s := newService(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, s.bin, "--listen", "127.0.0.1:0")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), "LISTEN_FDS=1"), []*os.File{s.socket}
	out, err := cmd.CombinedOutput()
	want := fmt.Sprintf("leash: systemd has a socket for %s: give --listen or --tls-listen this address, or end the socket unit", s.addr)
	if err == nil || !strings.Contains(string(out), want) {
		t.Errorf("it ends with %v and says %s", err, out)
	}
}

func (s *service) dial() *redistest.Client {
	s.t.Helper()
	c, err := redistest.Dial(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

func do(t *testing.T, c *redistest.Client, args ...string) string {
	t.Helper()
	got, err := c.Do(args...)
	if err != nil {
		t.Fatal(args, err)
	}
	return got
}

// TestDrainDelay checks that Leash is not ready from the first moment of a stop, and still takes
// new clients for the delay.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := newService(t, "--upstream", redis.Addr, "--drain-timeout", "0", "--drain-delay", "5s", "--admin", "127.0.0.1:0")
	s.start()
	admin := dialAdmin(t, &s.log)
	eventually(t, "Leash is ready", admin.is("/readyz", 200))
	began := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.reported("STOPPING=1")
	if status, _ := admin.get("/readyz"); status != 503 {
		t.Errorf("while it stops, /readyz answers %d", status)
	}
	if got := do(t, s.dial(), "PING"); got != "+PONG\r\n" {
		t.Errorf("a new client gets %q", got)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, s.log.String())
	}
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("it has stopped after %v", took)
	}
}

// TestDrainMovesClients checks that go-redis, which asks to be told, connects again before Leash
// closes its connections, and that no command of it fails meanwhile.
func TestDrainMovesClients(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := newService(t, "--upstream", redis.Addr, "--drain-timeout", "0", "--drain-delay", "8s",
		"--maint-notifications")
	s.start()
	client := goredis.NewClient(&goredis.Options{
		Addr: s.addr, PoolSize: 1, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeEnabled},
	})
	defer client.Close()
	first := client.ClientID(t.Context()).Val()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	moved := first
	for until := time.Now().Add(7500 * time.Millisecond); moved == first && time.Now().Before(until); {
		var err error
		if moved, err = client.ClientID(t.Context()).Result(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if first == 0 || moved == first {
		t.Errorf("after 7.5 s of 8 it still has connection %d", moved)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, s.log.String())
	}
}
