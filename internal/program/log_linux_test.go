package program

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// TestLogThatNobodyReads: Leash serves, and stops when it is asked to, when the reader of its log
// has ended or stands still, and when the disk of the log is full.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	reader, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	unread, stuck, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	fill(t, stuck)
	redis, binary := redistest.Start(t), leashtest.Binary(t)
	for name, log := range map[string]*os.File{"no reader": pipe, "a stuck reader": stuck, "full disk": full} {
		t.Run(name, func(t *testing.T) {
			defer log.Close()
			listen := redistest.FreeAddr(t)
			cmd := exec.CommandContext(t.Context(), binary, "--listen", listen, "--upstream", redis.Addr,
				"--log-level", "debug")
			cmd.Stderr = log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer func() { _ = cmd.Process.Kill() }()
			eventually(t, "it serves", func() bool {
				c, err := redistest.Dial(listen)
				if err != nil {
					return false
				}
				defer c.Close()
				reply, err := c.Do("PING")
				return err == nil && reply == "+PONG\r\n"
			})
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("it does not end")
			}
		})
	}
}

// fill writes until the pipe takes no more.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	if err := pipe.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := pipe.Write(make([]byte, 4096)); errors.Is(err, os.ErrDeadlineExceeded) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
