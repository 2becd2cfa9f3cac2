package audit

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"leash/lockcmd/view"
)

const (
	// waiting is how many lines wait at most to be written.
	waiting = 8192
	// batch is how many bytes are written at once.
	batch = 64 << 10
)

// Log is an audit log. Its methods are safe for concurrent use, except for Run.
type Log struct {
	path    string // empty: out is not a file
	log     *slog.Logger
	queue   chan event
	dropped atomic.Int64

	// Used by Run only.
	out    io.WriteCloser
	broken bool // the last write failed, perhaps within a line
}

type event struct {
	at     time.Time
	change view.Change
}

var _ view.Observer = (*Log)(nil)

// Open opens a log at the end of the file at path, or on standard error for the path "stderr". It
// makes the file if there is none. Other users cannot read it.
func Open(path string, log *slog.Logger) (*Log, error) {
	l := &Log{path: path, log: log, queue: make(chan event, waiting)}
	if path == "stderr" {
		l.path, l.out = "", os.Stderr
		return l, nil
	}
	out, err := openFile(path)
	l.out = out
	return l, err
}

func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// Watches implements view.Observer.
func (l *Log) Watches() bool { return true }

// Observe implements view.Observer. It does not block.
func (l *Log) Observe(c view.Change) {
	select {
	case l.queue <- event{time.Now(), c}:
	default:
		l.dropped.Add(1)
	}
}

// Dropped returns how many lines were dropped. It is 0 for a nil log.
func (l *Log) Dropped() int64 {
	if l == nil {
		return 0
	}
	return l.dropped.Load()
}

// Run writes the lines until ctx is done. Then it writes those that wait, and closes the file. A
// value in reopen makes it open the file again, which may have been renamed.
func (l *Log) Run(ctx context.Context, reopen <-chan os.Signal) {
	defer l.close()
	for {
		select {
		case <-ctx.Done():
			l.drain()
			return
		case <-reopen:
			l.reopen()
		case e := <-l.queue:
			l.write(e)
		}
	}
}

// drain writes the lines that wait.
func (l *Log) drain() {
	for {
		select {
		case e := <-l.queue:
			l.write(e)
		default:
			return
		}
	}
}

// write writes one line, and with it as many of those that wait as fit in a batch.
func (l *Log) write(e event) {
	var b []byte
	if l.broken {
		b = append(b, '\n') // the end of a line that was written in part
	}
	lines := int64(0)
	for more := true; more; {
		b = e.append(b)
		lines++
		if more = len(b) < batch; more {
			select {
			case e = <-l.queue:
			default:
				more = false
			}
		}
	}
	_, err := l.out.Write(b)
	if err != nil {
		l.dropped.Add(lines)
		if !l.broken {
			l.log.Error("cannot write the audit log, its lines are dropped", "file", l.path, "err", err)
		}
	} else if l.broken {
		l.log.Info("the audit log is written again", "file", l.path, "dropped", l.dropped.Load())
	}
	l.broken = err != nil
}

// reopen opens the file again. If it cannot, the old one stays.
func (l *Log) reopen() {
	if l.path == "" {
		return
	}
	out, err := openFile(l.path)
	if err != nil {
		l.log.Error("cannot open the audit log again: using the old file", "file", l.path, "err", err)
		return
	}
	l.out.Close()
	l.out, l.broken = out, false
	l.log.Info("audit log opened again", "file", l.path)
}

func (l *Log) close() {
	if l.path == "" {
		return
	}
	if err := l.out.Close(); err != nil {
		l.log.Error("cannot close the audit log", "file", l.path, "err", err)
	}
}
