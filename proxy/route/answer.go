package route

import (
	"sync/atomic"

	"leash/proxy/links"
)

// Answer is one command on a private link, and its whole reply.
type Answer struct {
	links.Request
	of *Gathering // nil: it has not been sent

	Bytes   []byte // the reply
	Missing bool   // there is no reply
	Written bool   // there is no reply, but Redis may have executed the command
	Cause   error  // why there is no reply
}

// Gathering waits for the replies of several commands. The session's loop then looks at them
// together.
type Gathering struct {
	router *Router
	left   atomic.Int64
	done   chan struct{} // closed when all have a reply or are lost
}

var _ links.Sink = (*Answer)(nil)

func newGathering(r *Router, n int) *Gathering {
	g := &Gathering{router: r, done: make(chan struct{})}
	g.left.Store(int64(n))
	if n == 0 {
		close(g.done)
	}
	return g
}

// Gather sends requests on a private link, in order, and waits for the replies. It always returns,
// because it breaks the link when the session ends.
func (r *Router) Gather(l *links.Link, requests ...[]byte) []*Answer {
	g, answers := r.Send(l, requests)
	g.Await(l)
	return answers
}

// GatherAll sends a request on each of several private links, and waits for the replies.
func (r *Router) GatherAll(all []*links.Link, request []byte) (answers []*Answer) {
	for _, l := range all {
		_, a := r.Send(l, [][]byte{request})
		answers = append(answers, a...)
	}
	for i, a := range answers {
		a.Await(all[i])
	}
	return answers
}

// Send sends requests on a private link. prefixes[i] goes before requests[i].
func (r *Router) Send(l *links.Link, requests [][]byte, prefixes ...[]byte) (*Gathering, []*Answer) {
	g := newGathering(r, len(requests))
	answers := make([]*Answer, len(requests))
	for i, request := range requests {
		a := &Answer{of: g}
		a.Command, a.Sink, a.Permit = request, a, r.Session
		if i < len(prefixes) {
			a.Prefix = prefixes[i]
		}
		answers[i] = a
	}
	for _, a := range answers {
		l.Submit(&a.Request)
	}
	return g, answers
}

// SendTo sends one request on a private link and gives the reply to sink. The sink passes on to a
// what it does not use. It calls Finish when it has used the whole reply.
func (a *Answer) SendTo(sink links.Sink, r *Router, l *links.Link, request []byte) {
	*a = Answer{of: newGathering(r, 1)}
	a.Request = links.Request{Command: request, Sink: sink, Permit: r.Session}
	l.Submit(&a.Request)
}

// Sent reports whether the command has been sent.
func (a *Answer) Sent() bool { return a.of != nil }

// Forget makes a as if it had not been sent. Its reply has come or is lost.
func (a *Answer) Forget() { a.of = nil }

// Await waits for the reply. It breaks the link when the session ends first.
func (a *Answer) Await(l *links.Link) { a.of.Await(l) }

// Await waits for the replies. It breaks the link when the session ends first.
func (g *Gathering) Await(l *links.Link) {
	select {
	case <-g.done:
	case <-g.router.Context.Done():
		l.Break()
		<-g.done
	}
}

// Reply implements links.Sink.
func (a *Answer) Reply(p []byte, done bool) links.Flusher {
	a.Bytes = append(a.Bytes, p...)
	if done {
		a.Finish()
	}
	return nil
}

// Lost implements links.Sink.
func (a *Answer) Lost(written bool, cause error) {
	a.Missing, a.Written, a.Bytes, a.Cause = true, written, nil, cause
	a.Finish()
}

// Finish reports that nothing more comes. Safe for concurrent use.
func (a *Answer) Finish() {
	if a.of.left.Add(-1) == 0 {
		close(a.of.done)
	}
}

// IsError reports whether the reply is an error.
func (a *Answer) IsError() bool { return len(a.Bytes) > 0 && a.Bytes[0] == '-' }
