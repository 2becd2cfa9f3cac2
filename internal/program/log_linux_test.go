package program

import (
	"os"
	"os/exec"
	"testing"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// TestLogThatNobodyReads: Leash goes on when the reader of its log ends, and when the disk of the
// log is full.
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
	redis, binary := redistest.Start(t), leashtest.Binary(t)
	for name, log := range map[string]*os.File{"no reader": pipe, "full disk": full} {
		t.Run(name, func(t *testing.T) {
			defer log.Close()
			listen := redistest.FreeAddr(t)
			cmd := exec.CommandContext(t.Context(), binary, "--listen", listen, "--upstream", redis.Addr)
			cmd.Stderr = log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Wait() }()
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
		})
	}
}
