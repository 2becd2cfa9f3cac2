package program

import (
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"leash/internal/guard"
)

const (
	logLines  = 4096        // how many lines wait to be written
	logAtStop = time.Second // how long the end of the program waits for the last ones
)

// logQueue writes the lines of the log in the background, one in each Write. A reader of the log
// that stands still must not stop Leash. Lines for which there is no room are counted. It is safe
// for concurrent use.
type logQueue struct {
	to      io.Writer
	lines   chan []byte
	missing atomic.Int64
	direct  *slog.Logger  // writes to to
	ending  chan struct{} // closed by end
	ended   chan struct{} // closed when the last line was written
}

// startLog returns the log of the program. end writes what is still queued, and waits a second for
// that at most.
func startLog(format string, level slog.Leveler, to io.Writer) (log *slog.Logger, end func()) {
	q := &logQueue{
		to: to, lines: make(chan []byte, logLines), direct: newLogger(format, slog.LevelWarn, to),
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
	select {
	case q.lines <- append([]byte(nil), line...):
	default:
		q.missing.Add(1)
	}
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
	_, _ = q.to.Write(line)
}

func (q *logQueue) end() {
	close(q.ending)
	select {
	case <-q.ended:
	case <-time.After(logAtStop):
	}
}
