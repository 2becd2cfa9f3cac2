package links

import (
	"context"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
)

// Receiver takes what comes on a link of Listen. Only the goroutine that reads calls Receive and
// Flush. They must not block.
type Receiver interface {
	// Receive takes a whole frame, which it may change, and which is valid only during the call.
	// oldest is the oldest request without an answer, or nil. answered reports whether the frame
	// ends that request, whose sink then gets neither Reply nor Lost. An error ends the link.
	Receive(frame []byte, oldest *Request) (answered bool, err error)
	Flusher // called after all frames of the same read from Redis
	// Ended is called once, when the link has ended or there is no connection. Submit may be called
	// until Ended has returned. After it, the requests that are left are lost.
	Ended(cause error)
}

// Listen gives the caller a link for subscriptions, until Break. r decides which frame answers
// which request, because messages may come before an answer, and an answer may have several frames.
// The link dials at once, and ends when its connection breaks or there is none. It may outlive the
// node.
func (n *Node) Listen(lane dial.Lane, r Receiver) *Link {
	l := newLink(n, lane)
	l.receiver = r
	l.start("subscriber", func(context.Context) { l.listen(n.nodes.ctx) })
	return l
}

// listen is the body of the goroutine of a link of Listen.
func (l *Link) listen(ctx context.Context) {
	log := l.node.nodes.log
	defer context.AfterFunc(ctx, guard.Func(log, "end of a link", func() { l.close(ErrClosed) }))()
	conn, login, err := l.connect(ctx)
	if err == nil {
		err = l.serve(conn, login)
	}
	l.close(err)
	_ = guard.Do(log, "end of a subscriber", func() { l.receiver.Ended(l.closing) }, "node", l.node.Addr)
	l.end()
}

// Heard returns when something last came from Redis, or when the connection was made, by Now.
func (l *Link) Heard() time.Duration { return time.Duration(l.heard.Load()) }

// BreakIfSilent ends a connection that has brought nothing for the upstream time-out.
func (l *Link) BreakIfSilent() {
	if Now()-l.Heard() > l.node.nodes.Dialer.Timeout() {
		l.breakConn(errSilent)
	}
}

// receive gives a frame to the receiver. An AUTH of loginAgain takes its replies itself.
func (r *replyReader) receive(frame []byte) error {
	r.next()
	if r.current != nil && (frame[0] == '+' || frame[0] == '-') {
		if auth, ok := r.current.Sink.(*whole); ok {
			done := r.current.answered(frame)
			if done {
				r.current = nil
			}
			auth.Reply(frame, done)
			return nil
		}
	}
	answered, err := r.link.receiver.Receive(frame, r.current)
	if answered {
		r.current = nil
	}
	return err
}
