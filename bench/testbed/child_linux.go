package testbed

import (
	"syscall"
	"time"

	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is what a Go process uses, in bytes.
type Memory struct {
	Heap     int64 // in use after the last garbage collection, to a megabyte
	Resident int64
}

// Memory is that of a child that runs with GODEBUG=gctrace=1.
func (c *Child) Memory() (m Memory, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID()))
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kilobytes, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return m, err
			}
			m.Resident = kilobytes << 10
		}
	}
	log, err := os.ReadFile(c.log)
	m.Heap = lastHeap(string(log)) << 20
	return m, err
}

// lastHeap is what the last garbage collection left, in MB: the third figure in "gc 7 @0.1s 2%: …,
// 4->5->2 MB, …".
func lastHeap(trace string) (megabytes int64) {
	for line := range strings.Lines(trace) {
		before, _, ok := strings.Cut(line, " MB, ")
		if parts := strings.Split(before, "->"); ok && strings.HasPrefix(line, "gc ") && len(parts) == 3 {
			if n, err := strconv.ParseInt(parts[2], 10, 64); err == nil {
				megabytes = n
			}
		}
	}
	return megabytes
}

// LogTailWithoutGC is the end of the log without the lines of garbage collections.
func (c *Child) LogTailWithoutGC() string {
	log, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	var words []string
	for line := range strings.Lines(string(log)) {
		if !strings.HasPrefix(line, "gc ") {
			words = append(words, line)
		}
	}
	return strings.Join(words[max(0, len(words)-10):], "")
}

// CPUTimes is the CPU time of processes together.
func CPUTimes(pids ...int) (sum time.Duration, err error) {
	for _, pid := range pids {
		one, err := CPUTime(pid)
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}

// CPUTime is the CPU time of a process, in user and kernel mode, including ended threads. It reads
// the clock of clock_getcpuclockid(3), which has nanoseconds, unlike /proc.
func CPUTime(pid int) (time.Duration, error) {
	const cpuclockSched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuclockSched), &ts); err != nil {
		return 0, fmt.Errorf("cpu clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// childAttr puts a child into its own process group, so that ^C reaches only bench. It makes the
// kernel kill the child when the thread that started it ends.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
