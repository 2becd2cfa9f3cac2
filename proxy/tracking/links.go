package tracking

import (
	"bytes"

	"leash/proxy/call"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// connection is the session's own connection to one node.
type connection struct {
	link *links.Link
	// gets the invalidations with REDIRECT, nil without it; guarded by mu of the session
	listener *links.Link
	// the call whose reply came last and has not reached the client; guarded by mu of the session
	last *call.Call
}

// Forget implements call.Tracker.
func (one *connection) Forget(c *call.Call) {
	if one.last == c {
		one.last = nil
	}
}

// Link implements route.Cache. It makes the connection if there is none.
func (t *tracking) Link(n *links.Node) *links.Link {
	c := t.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.stopped { // the session check may come after the end
		return n.Link(c.router.Lane)
	}
	one := t.links[n]
	switch {
	case one != nil && !one.link.Ended():
		return one.link
	case t.redirect.Load() != nil: // only the loop can make it
		t.stale.Store(true)
		return n.Link(c.router.Lane)
	case one != nil:
		t.lostLocked(n, one) // receive would notice it soon
	}
	one = t.pinLocked(n)
	for _, args := range t.accepted {
		one.link.Submit(&links.Request{Command: resp.AppendCommand(nil, args...), Sink: links.Discard{}})
	}
	return one.link
}

func (t *tracking) pinLocked(n *links.Node) *connection {
	one := &connection{}
	one.link = n.Pin(t.client.router.Lane, func(frame []byte) { t.receive(n, one, frame) })
	one.link.Steady(true)
	t.links[n] = one
	return one
}

// receive handles a frame that answers no call. It is an invalidation, or nil when the connection
// has ended.
func (t *tracking) receive(n *links.Node, one *connection, frame []byte) {
	if t.redirect.Load() != nil && !bytes.HasPrefix(frame, []byte(invalidatePush)) {
		t.missed(n, one)
		return
	}
	c := t.client
	c.mu.Lock()
	var f links.Flusher
	switch {
	case t.stopped:
	case frame != nil:
		f = c.calls.DeliverBehindLocked(one.last, frame)
	case t.links[n] == one:
		f = t.lostLocked(n, one)
	}
	c.mu.Unlock()
	links.Flush(f)
}

// lostLocked removes a connection that has ended. All values that were read on it count as invalid.
func (t *tracking) lostLocked(n *links.Node, one *connection) links.Flusher {
	delete(t.links, n)
	one.link.Unpin(false)
	if !t.client.router.Lane.RESP3 {
		return nil
	}
	return t.client.calls.DeliverBehindLocked(one.last, []byte(InvalidateAll))
}

// replied records that a node has sent the call's reply or a part of it.
func (t *tracking) replied(n *links.Node, c *call.Call) {
	t.client.mu.Lock()
	defer t.client.mu.Unlock()
	if one := t.links[n]; one != nil {
		one.last = c
		c.TrackLocked(one)
	}
}

// open returns the session's connection to a node. If there is none, it makes one and sends all
// options except REDIRECT. Only the loop calls it, while no call is in flight.
func (t *tracking) open(n *links.Node) *links.Link {
	if t.redirect.Load() == nil {
		return t.Link(n)
	}
	t.client.mu.Lock()
	defer t.client.mu.Unlock()
	if one := t.links[n]; one != nil {
		return one.link
	}
	return t.pinLocked(n).link
}

// listen returns Redis's id of the connection that gets the invalidations of a node. It makes the
// connection if there is none. If Redis refused it, refusal is the reason. Only the loop calls it,
// after open.
func (t *tracking) listen(n *links.Node) (id int64, refusal *route.Answer) {
	c := t.client
	c.mu.Lock()
	one := t.links[n]
	if one == nil { // it has ended already
		c.mu.Unlock()
		return 0, &route.Answer{Missing: true}
	}
	if one.listener == nil {
		lane := c.router.Lane
		lane.RESP3 = true
		one.listener = n.Pin(lane, func(frame []byte) { t.receiveRedirected(n, one, frame) })
		one.listener.Steady(true)
	}
	listener := one.listener
	c.mu.Unlock()
	a := c.router.Gather(listener, ping)[0]
	if id := listener.ClientID(); !a.Missing && id != 0 {
		return id, nil
	}
	return 0, &route.Answer{Missing: true, Cause: a.Cause}
}

// connect makes the source's two connections to a node. It reports whether Redis has accepted the
// options. Only the source's loop calls it.
func (t *tracking) connect(n *links.Node) bool {
	t.client.mu.Lock()
	accepted := t.accepted
	old := t.links[n]
	delete(t.links, n)
	t.client.mu.Unlock()
	if old != nil {
		old.closeListener()
		old.link.Unpin(false)
	}
	for _, args := range accepted {
		if a := t.ask(n, args, true); a.Missing || a.IsError() {
			return false
		}
	}
	return true
}

// listeners returns the connections that get redirected invalidations.
func (t *tracking) listeners() []*links.Link {
	return t.collect(func(one *connection) *links.Link { return one.listener })
}

// collect returns what of returns for each connection, without nil. mu is held while of is called.
func (t *tracking) collect(of func(one *connection) *links.Link) (all []*links.Link) {
	t.client.mu.Lock()
	defer t.client.mu.Unlock()
	for _, one := range t.links {
		if l := of(one); l != nil {
			all = append(all, l)
		}
	}
	return all
}

// closeListeners ends the connections that get the invalidations for another client.
func (t *tracking) closeListeners() {
	for _, l := range t.collect(func(one *connection) (listener *links.Link) {
		listener, one.listener = one.listener, nil
		return listener
	}) {
		l.Unpin(false)
	}
}

// closeListener ends the connection that gets invalidations. It may be called only for a
// connection that is no longer in the map.
func (one *connection) closeListener() {
	if one.listener != nil {
		one.listener.Unpin(false)
	}
}
