package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// memory is what a Go process uses, in bytes.
type memory struct {
	heap     int64 // in use after the last garbage collection, to a megabyte
	resident int64
}

// memory is that of a child that runs with GODEBUG=gctrace=1.
func (c *child) memory() (m memory, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid()))
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kilobytes, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return m, err
			}
			m.resident = kilobytes << 10
		}
	}
	log, err := os.ReadFile(c.log)
	m.heap = lastHeap(string(log)) << 20
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

// logTailWithoutGC is the end of the log without the lines of garbage collections.
func (c *child) logTailWithoutGC() string {
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
