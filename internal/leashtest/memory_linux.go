package leashtest

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// PeakMemory is the most resident memory that the process has had since its start or the last
// ForgetPeak, in bytes.
func (l *Leash) PeakMemory() (bytes int64, err error) {
	f, err := os.Open(l.proc("status"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			_, err := fmt.Sscanf(rest, "%d kB", &bytes)
			return bytes << 10, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in %s", f.Name())
}

// ForgetPeak resets PeakMemory.
func (l *Leash) ForgetPeak() error {
	return os.WriteFile(l.proc("clear_refs"), []byte("5"), 0)
}

// proc is a file that the kernel has about the process.
func (l *Leash) proc(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("/proc/%d/%s", l.cmd.Process.Pid, name)
}
