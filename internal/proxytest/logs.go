package proxytest

import (
	"bytes"
	"strings"
	"sync"
)

// LogBuffer keeps log lines. Safe for concurrent use.
type LogBuffer struct {
	Mu sync.Mutex
	B  bytes.Buffer
}

// Write implements io.Writer.
func (l *LogBuffer) Write(p []byte) (int, error) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.B.Write(p)
}

// String returns all lines.
func (l *LogBuffer) String() string {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.B.String()
}

// Tail returns the last n lines.
func (l *LogBuffer) Tail(n int) string {
	lines := strings.Split(strings.TrimSpace(l.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
