package redistest

import (
	"cmp"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	clockVariable = "LEASH_REDISTEST_CLOCK" // names the file with the offset to preload/clock.c
	clockLibrary  = "clock.so"
	clockFile     = "clock"
)

//go:embed preload/clock.c
var clockSource string

// Clock is a server's own wall clock. A test can step it, as an operator or a time service steps a
// host's clock. Redis's TIME and all expiry follow it. Timers within Redis follow the machine's
// clock. It is safe for concurrent use. A restart of the server does not change it.
type Clock struct {
	file string

	// mu guards offset, and orders what is written into the file.
	mu     sync.Mutex
	offset time.Duration
}

// Step moves the clock forward by d, or back if d is negative. It truncates d to microseconds.
func (c *Clock) Step(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	offset := c.offset + d.Truncate(time.Microsecond)
	f, err := os.OpenFile(c.file, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("redistest: step the clock: %w", err)
	}
	// the kernel copies 8 bytes as one word
	_, err = f.Write(binary.NativeEndian.AppendUint64(nil, uint64(offset.Microseconds())))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("redistest: step the clock: %w", err)
	}
	c.offset = offset
	return nil
}

// Offset is by how much the clock is ahead of the machine's.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

// newClock writes the files of a clock into dir.
func newClock(dir string) (*Clock, error) {
	library, err := clockCode()
	if err != nil {
		return nil, err
	}
	c := &Clock{file: filepath.Join(dir, clockFile)}
	return c, errors.Join(os.WriteFile(filepath.Join(dir, clockLibrary), library, 0o700), os.WriteFile(c.file, make([]byte, 8), 0o600))
}

// env is what is added to the server's environment.
func (c *Clock) env() []string {
	if c == nil {
		return nil
	}
	return []string{"LD_PRELOAD=" + filepath.Join(filepath.Dir(c.file), clockLibrary), clockVariable + "=" + c.file}
}

// ClocksWork returns nil if servers can have their own clocks here, or an error that says why not.
// Clocks need Linux and a C compiler ($CC, or cc).
func ClocksWork() error {
	_, err := clockCode()
	return err
}

// clockCode is preload/clock.c, compiled.
var clockCode = sync.OnceValues(func() ([]byte, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("redistest: clocks of servers: %w on %s", errors.ErrUnsupported, runtime.GOOS)
	}
	dir, err := os.MkdirTemp("", "leash-clock-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	library := filepath.Join(dir, clockLibrary)
	cc := strings.Fields(cmp.Or(os.Getenv("CC"), "cc"))
	cmd := exec.Command(cc[0], append(cc[1:], "-shared", "-fPIC", "-O2", "-o", library, "-x", "c", "-")...)
	cmd.Stdin = strings.NewReader(clockSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("redistest: compile preload/clock.c: %w\n%s", err, out)
	}
	return os.ReadFile(library)
})
