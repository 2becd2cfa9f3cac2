package links

import (
	"bytes"
	"errors"
	"net"
	"os"
	"time"

	"leash/proxy/resp"
)

// Bytes read from Redis at a time. A shared link has much traffic. There may be thousands of pinned
// links, so their buffers are small.
const (
	readBuffer       = 64 << 10
	pinnedReadBuffer = 8 << 10
)

// keptFrame is the largest buffer for frames that is kept between two of them, in bytes.
const keptFrame = 256 << 10

// maxErrorReply bounds an error reply, which is kept until it is complete.
const maxErrorReply = 1 << 20

// maxScriptReply bounds the reply of a lock script, which is kept until it is complete.
const maxScriptReply = 64 << 20

// errStalled means that Redis began a reply and did not continue it.
var errStalled = errors.New("upstream: a reply that does not continue")

// ErrUnasked means that Redis sent a reply that no request waits for.
var ErrUnasked = errors.New("upstream: a reply that nobody asked for")

// errInternal means that reading from a connection panicked.
var errInternal = errors.New("upstream: internal error")

// replyReader finds the ends of replies on a connection and passes their bytes to the requests, in
// order. Its fields belong to its goroutine until that has ended.
type replyReader struct {
	link *Link
	conn net.Conn

	requests       queue    // taken over from link.written
	current        *Request // the request whose reply is being read
	handed         *Request // the request whose sink is taking a piece of its reply
	scan           resp.Scanner
	kind           byte   // first byte of the current reply; 0 between replies
	size           int    // bytes of the current reply so far
	answersNothing bool   // the current reply answers no request, or the receiver decides
	frame          []byte // the beginning of such a frame, which is passed on whole
	errBuf         []byte // the beginning of an error reply, which is passed on whole
	refused        []byte // the error reply to the ASKING before the current request, or nil
	touched        []Flusher

	now      time.Duration // of the last read, by Now
	deadline time.Time     // read deadline for the rest of a reply; zero: none
	done     int64         // requests with a whole reply
}

func newReplyReader(l *Link, conn net.Conn) *replyReader {
	r := &replyReader{link: l, conn: conn}
	// on a pinned link, a session may change the RESP version
	r.scan.RESP2 = !l.lane.RESP3 && !l.pinned
	return r
}

// run reads until the connection ends, and then detaches the link from it.
func (r *replyReader) run() {
	size := readBuffer
	if r.link.pinned {
		size = pinnedReadBuffer
	}
	buf := make([]byte, size)
	for {
		n, err := r.conn.Read(buf)
		switch {
		case err == nil:
			r.now = Now()
			r.link.progress(r.now)
			err = r.replies(buf[:n])
			r.link.answered.Store(r.done)
		case !errors.Is(err, os.ErrDeadlineExceeded):
		case r.deadline.IsZero() || time.Now().Before(r.deadline): // set by interruptReader
			r.moveReads()
			_ = r.conn.SetReadDeadline(r.deadline)
			continue
		default:
			err = errStalled
		}
		r.flush()
		r.expectMore()
		if err != nil {
			r.link.breakConn(err)
			return
		}
	}
}

// expectMore bounds the wait for the rest of a reply that has begun. Between replies there is no
// bound.
func (r *replyReader) expectMore() {
	switch {
	case r.kind != 0:
		r.deadline = time.Now().Add(r.link.node.nodes.Dialer.Timeout())
	case r.deadline.IsZero():
		return
	default:
		r.deadline = time.Time{}
	}
	_ = r.conn.SetReadDeadline(r.deadline)
}

func (r *replyReader) replies(p []byte) error {
	for len(p) > 0 {
		if r.kind == 0 {
			r.kind, r.size = p[0], 0
			r.answersNothing = r.link.receiver != nil || r.kind == '>' || !r.next()
			if r.answersNothing && r.kind != '>' && !r.link.takesFrames() {
				return ErrUnasked
			}
		}
		n, done, err := r.scan.Scan(p)
		if err != nil {
			return err
		}
		if r.size += n; r.size > maxScriptReply && r.link.lane.Scripts {
			return resp.ErrFrame
		}
		if err := r.part(p[:n], done); err != nil {
			return err
		}
		if done {
			r.kind = 0
		}
		p = p[n:]
	}
	return nil
}

// next makes the oldest request the current one.
func (r *replyReader) next() bool {
	if r.current != nil { // the reply to the previous request has been read
		return true
	}
	if r.requests.len() == 0 {
		l := r.link
		l.mu.Lock()
		r.requests, l.written = l.written, r.requests
		l.mu.Unlock()
	}
	r.current = r.requests.pop()
	return r.current != nil
}

// part passes on a piece of the current reply.
func (r *replyReader) part(p []byte, done bool) error {
	c := r.current
	switch {
	case r.answersNothing:
		return r.handOnPush(p, done)
	case r.kind == '-' && (!done || len(r.errBuf) > 0):
		r.errBuf = append(r.errBuf, p...)
		if len(r.errBuf) > maxErrorReply {
			return resp.ErrFrame
		}
		if !done {
			return nil
		}
		p = r.errBuf
		r.errBuf = nil
	}
	if c.awaited > 0 {
		if done {
			c.awaited--
		}
		if r.kind == '-' && c.Asking {
			r.refused = bytes.Clone(p)
		}
		return nil
	}
	if r.kind == '-' {
		p = r.withoutAsking(p)
		if r.link.unblocked(p) {
			return ErrClosed
		}
		r.link.noteError(p)
	}
	done = done && c.answered(p)
	if done {
		r.current, r.refused = nil, nil
		r.done++
		c.Answered = r.now
	}
	r.handed = c
	f := c.Sink.Reply(p, done)
	r.handed = nil
	if f != nil {
		r.touched = append(r.touched, f)
	}
	return nil
}

// withoutAsking returns the error that the current request gets instead of an error reply. Redis
// sends a request back with MOVED if it has refused the ASKING before it. The user lacks that
// right, and to follow the MOVED would not help.
func (r *replyReader) withoutAsking(reply []byte) []byte {
	if r.refused != nil && resp.HasCode(reply, "MOVED") {
		return r.refused
	}
	return reply
}

// giveUp ends the connection after a panic in run. If a sink was taking a piece, its request is
// lost, because the sink may be in any state.
func (r *replyReader) giveUp(cause error) {
	if c := r.handed; c != nil {
		if r.current == c {
			r.current = nil
		}
		c.lost(r.link, true, cause)
	}
	r.flush()
	r.link.breakConn(errInternal)
}

// handOnPush passes on a complete frame that answers no request. On a shared link no session has
// asked for one.
func (r *replyReader) handOnPush(p []byte, done bool) (err error) {
	if !r.link.takesFrames() {
		return nil
	}
	if !done || len(r.frame) > 0 {
		r.frame = append(r.frame, p...)
		p = r.frame
	}
	switch {
	case int64(len(p)) > 4*r.link.node.nodes.Server.MaxBulk: // a line of MONITOR may have this length
		return resp.ErrFrame
	case !done:
		return nil
	case r.link.receiver != nil:
		err = r.receive(p)
	default:
		r.link.receivePush(p)
	}
	if r.frame = r.frame[:0]; cap(r.frame) > keptFrame {
		r.frame = nil
	}
	return err
}

// takesFrames reports whether somebody takes frames that answer no request.
func (l *Link) takesFrames() bool { return l.receivePush != nil || l.receiver != nil }

// flush lets every session that got something write it, once.
func (r *replyReader) flush() {
	for i, f := range r.touched {
		r.touched[i] = nil
		f.Flush()
	}
	r.touched = r.touched[:0]
	if r.link.receiver != nil {
		r.link.receiver.Flush()
	}
}

// unanswered returns the requests without a whole reply, oldest first. Call it only after run has
// returned.
func (r *replyReader) unanswered() []*Request {
	var lost []*Request
	if r.current != nil {
		lost = append(lost, r.current)
	}
	return append(lost, r.requests.popAll()...)
}
