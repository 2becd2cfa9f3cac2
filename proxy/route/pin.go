package route

import (
	"bytes"
	"context"
	"sync"
	"time"

	"leash/proxy/call"
	"leash/proxy/links"
	"leash/proxy/resp"
)

// Pin is a connection that a session has to itself for one blocking command,
// which may move to another node when it is redirected. Safe for concurrent use.
type Pin struct {
	router *Router

	// mu guards the fields below. Never held across I/O.
	mu    sync.Mutex
	link  *links.Link
	dirty bool // the connection is closed after the call and not reused
	over  bool // nothing more is sent
}

var _ call.Path = (*Pin)(nil)

// Pin returns a connection for one blocking command. It is made when the command is sent.
func (r *Router) Pin() *Pin { return &Pin{router: r} }

// OwnPin returns a connection to a node, for commands of Leash's own user.
func (r *Router) OwnPin(n *links.Node) *Pin {
	return &Pin{router: r, link: n.Pin(r.Up.Dialer.ServiceLane(), nil)}
}

// Link is the current connection, or nil. Only that of OwnPin has one before a command is sent.
func (p *Pin) Link() *links.Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

// Submit implements call.Path. It uses the current connection if that leads to the node.
func (p *Pin) Submit(n *links.Node, c *links.Request) {
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		c.Sink.Lost(false, links.ErrDropped)
		return
	}
	old := p.link
	if old == nil || old.Node() != n || old.Ended() {
		p.link = n.Pin(p.router.Lane, nil)
	}
	link, clean := p.link, !p.dirty
	p.mu.Unlock()
	if old != nil && old != link {
		old.Unpin(clean) // it has answered with a redirect, or has ended
	}
	link.Submit(c)
}

// Abort ends the connection, so that Redis sends nothing more. The call is lost.
func (p *Pin) Abort() { p.end((*links.Link).Break) }

// HangUp ends the connection when Redis has sent what it has. Without a reply, the call is lost.
func (p *Pin) HangUp() { p.end((*links.Link).HangUp) }

func (p *Pin) end(how func(*links.Link)) {
	p.mu.Lock()
	p.over = true
	link := p.link
	p.mu.Unlock()
	if link != nil {
		how(link)
	}
}

// Abandoned implements call.Path. It reports whether Abort has been called.
func (p *Pin) Abandoned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// Release gives the connection back after the call has been answered.
func (p *Pin) Release() {
	p.mu.Lock()
	link, clean := p.link, !p.dirty && !p.over
	p.link, p.over = nil, true
	p.mu.Unlock()
	if link != nil {
		link.Unpin(clean)
	}
}

// Target returns the node and Redis's id of the connection that a call uses. The connection will
// not be reused, because a command about that id may arrive late.
func (p *Pin) Target() (n *links.Node, id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.link == nil || p.link.ClientID() == 0 {
		return nil, 0
	}
	p.dirty = true
	return p.link.Node(), p.link.ClientID()
}

// goneTimeout bounds how long AwaitGone waits.
const goneTimeout = 2 * time.Second

// AwaitGone waits until Redis has closed the connection (CLIENT LIST ID,
// https://redis.io/docs/latest/commands/client-list/). It returns false if it cannot tell within
// goneTimeout, or if there was no connection.
func (p *Pin) AwaitGone() bool {
	link := p.Link()
	if link == nil || link.ClientID() == 0 {
		return false
	}
	n, id := link.Node(), link.ClientID()
	ctx, cancel := context.WithTimeout(p.router.Context, goneTimeout)
	defer cancel()
	asked := n.Link(p.router.Up.Dialer.ServiceLane())
	request := resp.AppendCommand(nil, []byte("CLIENT"), []byte("LIST"), []byte("ID"), resp.AppendDecimal(nil, id))
	line := append(resp.AppendDecimal([]byte("id="), id), ' ')
	for pause := time.Millisecond; ; pause *= 2 {
		reply, err := asked.Ask(ctx, request)
		switch {
		case err != nil, len(reply) == 0, reply[0] != '$': // Redis is older than 6.2, or the right is missing
			return false
		case !bytes.Contains(reply, line):
			return true
		}
		if links.Pause(ctx, pause); ctx.Err() != nil {
			return false
		}
	}
}
