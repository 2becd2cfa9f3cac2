package proxy

import (
	"sync"

	"leash/proxy/call"
	"leash/proxy/upstream"
)

// pin is a connection that a session has to itself for one blocking command,
// which may move to another node when it is redirected. Safe for concurrent use.
type pin struct {
	session *session

	// mu guards the fields below. Never held across I/O.
	mu    sync.Mutex
	link  *upstream.Link
	dirty bool // the connection is closed after the call and not reused
	over  bool // nothing more is sent
}

var _ call.Path = (*pin)(nil)

// Submit implements call.Path. It uses the current connection if that leads to the node.
func (p *pin) Submit(n *upstream.Node, c *upstream.Call) {
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		c.Sink.Lost(false, upstream.ErrDropped)
		return
	}
	old := p.link
	if old == nil || old.Node() != n || old.Ended() {
		p.link = n.Pin(p.session.lane, nil)
	}
	link, clean := p.link, !p.dirty
	p.mu.Unlock()
	if old != nil && old != link {
		old.Unpin(clean) // it has answered with a redirect, or has ended
	}
	link.Submit(c)
}

// abort ends the connection, so that Redis sends nothing more. The call is lost.
func (p *pin) abort() {
	p.mu.Lock()
	p.over = true
	link := p.link
	p.mu.Unlock()
	if link != nil {
		link.Break()
	}
}

// Abandoned implements call.Path. It reports whether abort has been called.
func (p *pin) Abandoned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// release gives the connection back after the call has been answered.
func (p *pin) release() {
	p.mu.Lock()
	link, clean := p.link, !p.dirty && !p.over
	p.link, p.over = nil, true
	p.mu.Unlock()
	if link != nil {
		link.Unpin(clean)
	}
}

// target returns the node and Redis's id of the connection that a call uses. The connection will
// not be reused, because a command about that id may arrive late.
func (p *pin) target() (n *upstream.Node, id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == nil || p.over || p.link.ClientID() == 0 {
		return nil, 0
	}
	p.dirty = true
	return p.link.Node(), p.link.ClientID()
}

// connectionID returns the node and Redis's id of the connection, which may have ended. It returns
// nil if there was none.
func (p *pin) connectionID() (n *upstream.Node, id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == nil || p.link.ClientID() == 0 {
		return nil, 0
	}
	return p.link.Node(), p.link.ClientID()
}
