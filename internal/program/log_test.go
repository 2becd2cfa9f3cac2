package program

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// slowReader reads nothing until it is told to.
type slowReader struct {
	bytes.Buffer
	begun, read chan struct{}
}

func (r *slowReader) Write(p []byte) (int, error) {
	select {
	case r.begun <- struct{}{}:
	default:
	}
	<-r.read
	return r.Buffer.Write(p)
}

// TestSlowLog: The log is read too slowly. Its lines take a bounded number of bytes, and the log
// says how many lines are missing.
func TestSlowLog(t *testing.T) {
	t.Parallel()
	out := &slowReader{begun: make(chan struct{}, 1), read: make(chan struct{})}
	log, end := startLog("text", slog.LevelInfo, out)
	log.Info("first")
	<-out.begun // the reader has it
	const lines, large = 10, 1 << 20
	for range lines {
		log.Info(strings.Repeat("x", large))
	}
	log.Info("last")
	close(out.read)
	end()
	text := out.String()
	if n := strings.Count(text, "xxx"+"\n"); n != logBytes/large-1 || !strings.Contains(text, "msg=last\n") ||
		!strings.Contains(text, "lines=7\n") {
		t.Errorf("%d large lines, and %.500q", n, strings.ReplaceAll(text, strings.Repeat("x", large), "X"))
	}
}
