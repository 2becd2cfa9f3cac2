package proxy

import (
	"sync/atomic"

	"leash/proxy/upstream"
)

// answer is one command on a private link, and its whole reply.
type answer struct {
	upstream.Call
	upstream.Permit
	of      *gathering
	reply   []byte
	lost    bool // there is no reply
	written bool // lost, but Redis may have executed the command
	cause   error
}

// gathering waits for the replies of several commands. The session's loop then looks at them
// together.
type gathering struct {
	session *session
	left    atomic.Int64
	done    chan struct{} // closed when all have a reply or are lost
}

var _ upstream.Sink = (*answer)(nil)

func newGathering(s *session, n int) *gathering {
	g := &gathering{session: s, done: make(chan struct{})}
	g.left.Store(int64(n))
	if n == 0 {
		close(g.done)
	}
	return g
}

// gather sends requests on a private link, in order, and waits for the replies. It always returns,
// because it breaks the link when the session ends.
func (s *session) gather(l *upstream.Link, requests ...[]byte) []*answer {
	g, answers := s.submit(l, requests)
	g.await(l)
	return answers
}

// submit sends requests on a private link. prefixes[i] goes before requests[i].
func (s *session) submit(l *upstream.Link, requests [][]byte, prefixes ...[]byte) (*gathering, []*answer) {
	g := newGathering(s, len(requests))
	answers := make([]*answer, len(requests))
	for i, request := range requests {
		a := &answer{of: g, Permit: (*owner)(s)}
		a.Request, a.Sink = request, a
		if i < len(prefixes) {
			a.Prefix = prefixes[i]
		}
		answers[i] = a
	}
	for _, a := range answers {
		l.Submit(&a.Call)
	}
	return g, answers
}

// await waits for the replies. It breaks the link when the session ends first.
func (g *gathering) await(l *upstream.Link) {
	select {
	case <-g.done:
	case <-g.session.ctx.Done():
		l.Break()
		<-g.done
	}
}

// Reply implements upstream.Sink.
func (a *answer) Reply(p []byte, done bool) upstream.Flusher {
	a.reply = append(a.reply, p...)
	if done {
		a.of.finished()
	}
	return nil
}

// Lost implements upstream.Sink.
func (a *answer) Lost(written bool, cause error) {
	a.lost, a.written, a.reply, a.cause = true, written, nil, cause
	a.of.finished()
}

func (g *gathering) finished() {
	if g.left.Add(-1) == 0 {
		close(g.done)
	}
}

// isError reports whether the reply is an error.
func (a *answer) isError() bool { return len(a.reply) > 0 && a.reply[0] == '-' }
