package links

import (
	"net"
	"runtime"
	"time"
)

const (
	// batchBytes is about how many bytes go out in one write.
	batchBytes = 256 << 10
	// referenced is the size from which a request is not copied into the batch, in bytes.
	referenced = 32 << 10
	// keptBuffer limits the batch buffer that is kept between writes, in bytes. A bulk link keeps
	// up to batchBytes.
	keptBuffer = 64 << 10
)

const asking = "*1\r\n$6\r\nASKING\r\n"

// requestWriter writes a link's pending requests in batches. It belongs to the link's goroutine.
type requestWriter struct {
	link *Link
	conn net.Conn

	buf      []byte // small requests, one after the other
	from     int    // first byte of buf that is not in segments
	segments net.Buffers
	dropped  []*Request
	batch    []*Request // the requests in buf and segments
	limited  bool       // the connection has a write deadline
}

// run writes until the connection is broken or the link is closed.
func (w *requestWriter) run() {
	for w.await() {
		// All sessions that are ready to run first add their requests. Measured with 50 clients
		// without pipelining: 13-15 µs of CPU per command without this line, 8-9.5 µs with it.
		runtime.Gosched()
		overdue := w.take()
		for i, c := range w.dropped {
			w.dropped[i] = nil
			c.lost(w.link, false, ErrDropped)
		}
		w.dropped = w.dropped[:0]
		for _, c := range overdue {
			c.Permit.Overdue()
		}
		if len(overdue) > 0 { // nothing is to be written, and after the deadline even that would fail
			continue
		}
		if err := w.flush(); err != nil {
			w.link.breakConn(err)
		}
	}
}

// await blocks until requests are pending. It returns false when the connection is broken or the
// link is closed.
func (w *requestWriter) await() bool {
	l := w.link
	for {
		l.mu.Lock()
		done, some := l.broken != nil || l.closing != nil, l.pending.len() > 0
		l.idle = !done && !some
		l.mu.Unlock()
		if done || some {
			return !done
		}
		<-l.wake
	}
}

// take moves pending requests, up to a batch, to the written ones. From then on, Redis may have
// them. If it is too late for one of them, it moves none. It then returns the overdue requests.
//
// It compares the time last, when everything is ready to be written, because this process may be
// stopped at any point before. After the comparison, this goroutine needs a few µs until the kernel
// has the bytes. The time in Until contains a margin for that (renewal.Until, 20 ms and more).
func (w *requestWriter) take() (overdue []*Request) {
	l := w.link
	l.mu.Lock()
	defer l.mu.Unlock()
	var until *time.Time
	for size := 0; size < batchBytes; {
		c := l.pending.pop()
		if c == nil {
			break
		}
		l.pendingBytes -= len(c.Command)
		if !c.taken() {
			w.dropped = append(w.dropped, c)
			continue
		}
		c.awaited, c.answers = 0, 0
		if c.Asking {
			c.awaited++
			w.buf = append(w.buf, asking...)
		}
		if c.Prefix != nil {
			c.awaited++
			w.buf = append(w.buf, c.Prefix...)
		}
		w.add(c.Command)
		size += len(c.Command)
		w.batch = append(w.batch, c)
		if t := c.until(); t != nil && (until == nil || t.Before(*until)) {
			until = t
		}
	}
	w.limit(until)
	if until != nil && past(*until) {
		return w.putBackLocked()
	}
	l.tookLocked(len(w.batch))
	now := Now()
	for i, c := range w.batch {
		c.Written = now
		l.written.push(c)
		w.batch[i] = nil
	}
	w.batch = w.batch[:0]
	l.freeRoomLocked()
	return nil
}

// putBackLocked makes the batch pending again. It returns the requests for which it is too late.
func (w *requestWriter) putBackLocked() (overdue []*Request) {
	w.link.pending.putBack(w.batch)
	for _, c := range w.batch {
		w.link.pendingBytes += len(c.Command)
		if t := c.until(); t != nil && past(*t) {
			overdue = append(overdue, c)
		}
	}
	clear(w.batch)
	clear(w.segments)
	w.batch, w.segments, w.buf, w.from = w.batch[:0], w.segments[:0], w.buf[:0], 0
	return overdue
}

// limit sets the time at which an unfinished write ends. After it, the rest of the batch would
// reach Redis too late. The connection cannot be used after such an end.
func (w *requestWriter) limit(until *time.Time) {
	switch {
	case until != nil:
		_ = w.conn.SetWriteDeadline(*until)
	case w.limited:
		_ = w.conn.SetWriteDeadline(time.Time{})
	}
	w.limited = until != nil
}

// past reports whether t has come, by the monotonic clock or by the wall clock. The monotonic clock
// stops while the machine is suspended.
func past(t time.Time) bool {
	now := time.Now()
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}

func (w *requestWriter) add(request []byte) {
	if len(request) < referenced {
		w.buf = append(w.buf, request...)
		return
	}
	w.cut()
	w.segments = append(w.segments, request)
}

// cut makes a segment of the bytes that were copied since the last segment.
func (w *requestWriter) cut() {
	if w.from < len(w.buf) {
		w.segments = append(w.segments, w.buf[w.from:])
		w.from = len(w.buf)
	}
}

func (w *requestWriter) flush() (err error) {
	if len(w.segments) == 0 {
		_, err = w.conn.Write(w.buf)
	} else {
		w.cut()
		segments := w.segments // WriteTo changes its receiver
		_, err = segments.WriteTo(w.conn)
		clear(w.segments)
		w.segments = w.segments[:0]
	}
	w.buf, w.from = w.buf[:0], 0
	if cap(w.buf) > w.kept() {
		w.buf = nil
	}
	return err
}

// kept returns the largest buffer that is kept between writes, in bytes.
func (w *requestWriter) kept() int {
	if w.link.lane.Bulk { // there are few bulk links
		return batchBytes
	}
	return keptBuffer
}
