package program

import (
	"bytes"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"leash/internal/guard"
)

const (
	logLines  = 4096        // how many lines wait to be written at most
	logBytes  = 4 << 20     // how many bytes they have at most
	logAtStop = time.Second // how long the end of the program waits for the last ones
)

// logQueue writes the lines of the log in the background, one in each Write. A reader of the log
// that stands still must not stop Leash. Lines for which there is no room are counted. It is safe
// for concurrent use.
type logQueue struct {
	out     io.Writer
	lines   chan []byte
	bytes   atomic.Int64 // of the lines that wait
	missing atomic.Int64
	direct  *slog.Logger  // writes to out at once
	ending  chan struct{} // closed by end
	ended   chan struct{} // closed when the last line was written
}

// startLog returns the log of the program. end writes what is still queued, and waits a second for
// that at most.
func startLog(format string, level slog.Leveler, out io.Writer) (log *slog.Logger, end func()) {
	q := &logQueue{
		out: out, lines: make(chan []byte, logLines), direct: newLogger(format, slog.LevelWarn, out),
		ending: make(chan struct{}), ended: make(chan struct{}),
	}
	go func() {
		defer close(q.ended)
		_ = guard.Do(nil, "log", q.run)
	}()
	return newLogger(format, level, q), q.end
}

// Write queues a line. It does not block.
func (q *logQueue) Write(line []byte) (int, error) {
	size := int64(len(line))
	if q.bytes.Add(size) <= logBytes {
		select {
		case q.lines <- bytes.Clone(line):
			return len(line), nil
		default:
		}
	}
	q.bytes.Add(-size)
	q.missing.Add(1)
	return len(line), nil
}

// run writes lines until end is called and none is left.
func (q *logQueue) run() {
	for {
		select {
		case line := <-q.lines:
			q.write(line)
			continue
		case <-q.ending:
		}
		select {
		case line := <-q.lines:
			q.write(line)
		default:
			return
		}
	}
}

func (q *logQueue) write(line []byte) {
	if n := q.missing.Swap(0); n > 0 {
		q.direct.Warn("the log was read too slowly: lines are missing", "lines", n)
	}
	_, _ = q.out.Write(line)
	q.bytes.Add(-int64(len(line)))
}

func (q *logQueue) end() {
	close(q.ending)
	select {
	case <-q.ended:
	case <-time.After(logAtStop):
	}
}
