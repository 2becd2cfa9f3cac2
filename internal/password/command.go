package password

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// MaxSize is how long a password may be, in bytes.
const MaxSize = 64 << 10

// Command returns a function that runs a command, without a shell, and returns what it writes to
// its standard output, without the final line end. words are the program and its arguments.
//
// An error has the exit status, but nothing of what the command has written. Its standard error is
// not read, because it may contain secrets. The command and its children are killed when the
// context ends.
func Command(words []string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second // for children that left the group and keep the output open
		out := &limitedBuffer{}
		cmd.Stdout = out
		err := cmd.Run()
		text := string(out.text)
		switch {
		case ctx.Err() != nil:
			return "", errors.New("the command took too long")
		case out.full:
			return "", fmt.Errorf("the command wrote more than %d bytes: it can't be a password", MaxSize)
		case err != nil:
			return "", err
		}
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		if strings.TrimSpace(text) == "" {
			return "", errors.New("the command wrote nothing to its standard output")
		}
		return text, nil
	}
}

// limitedBuffer keeps MaxSize bytes. It is written by one goroutine and read when that has ended.
type limitedBuffer struct {
	text []byte
	full bool
}

// Write implements io.Writer.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.full = b.full || len(b.text)+len(p) > MaxSize; !b.full {
		b.text = append(b.text, p...)
	}
	return len(p), nil
}
