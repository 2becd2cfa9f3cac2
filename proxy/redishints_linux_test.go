package proxy_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// terminal opens a pseudo-terminal of 200 columns. It returns the user's side and the program's
// side.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	conn, err := user.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	var failed error
	err = conn.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed != nil {
			return
		}
		if number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); failed != nil {
			return
		}
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 400})
	})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return user, program
}

var controls = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// TestRedisCLIHints checks that redis-cli shows the arguments of a lock command while it is typed.
func TestRedisCLIHints(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	_, port, _ := net.SplitHostPort(l.Addr)
	for typed, hint := range map[string]string{
		"LOCK.TTL ":            "key [TOKEN token|OWNER id]",
		"lock.release order ":  "[READ|WRITE] [TOKEN token|OWNER id [ID request]] [ALL]",
		"LOCK.MRELEASE ":       "numkeys key [key ...] [TOKENS token [token ...]|OWNER id]",
		"LOCK.CHECK order ":    "TOKEN token",
		"LATCH.AWAIT started ": "[BLOCK milliseconds]",
	} {
		user, program := terminal(t)
		cmd := exec.CommandContext(t.Context(), "redis-cli", "-p", port)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
		cmd.Env = append(os.Environ(), "TERM=xterm")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		program.Close()
		screen := &proxytest.LogBuffer{}
		read := make(chan struct{})
		go func() { // until redis-cli is gone
			defer close(read)
			buf := make([]byte, 4096)
			for {
				n, err := user.Read(buf)
				if screen.Write(buf[:n]); err != nil {
					return
				}
			}
		}()
		proxytest.Eventually(t, "redis-cli is ready", func() bool { return strings.Contains(screen.String(), "> ") })
		if _, err := user.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "the hint for "+typed, func() bool {
			return strings.Contains(controls.ReplaceAllString(screen.String(), ""), typed+hint)
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-read
	}
}
