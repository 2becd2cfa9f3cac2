package tracking

import (
	"bytes"
	"slices"
	"sync/atomic"

	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/topology"
)

// InvalidateAll tells a client that all its cached values are invalid.
const InvalidateAll = ">2\r\n$10\r\ninvalidate\r\n_\r\n"

// tracking is what a Client has while tracking is on.
type tracking struct {
	client  *Client
	bcast   atomic.Bool
	optIn   bool
	optOut  bool
	caching []byte // CLIENT CACHING for the next command; used by the loop only

	redirect atomic.Pointer[redirection] // nil: invalidations go to the client itself
	// set with REDIRECT when a connection is missing or has ended; the loop makes it before the
	// next command
	stale atomic.Bool

	seen atomic.Pointer[topology.Snapshot] // the topology that the client's valid keys belong to

	// Guarded by mu of the session.
	accepted [][][]byte // arguments of CLIENT TRACKING ON without REDIRECT, for every connection
	links    map[*links.Node]*connection
	stopped  bool
}

// ask sends options to a node on the session's connection. Only the loop calls it, while no call is
// in flight.
func (t *tracking) ask(n *links.Node, args [][]byte, redirected bool) *route.Answer {
	link := t.open(n)
	if redirected {
		id, refusal := t.listen(n)
		if refusal != nil {
			return refusal
		}
		args = append(slices.Clone(args), []byte("REDIRECT"), resp.AppendDecimal(nil, id))
	}
	return t.client.router.Gather(link, resp.AppendCommand(nil, args...))[0]
}

func (t *tracking) note(args [][]byte) {
	var bcast bool
	t.optIn, t.optOut = false, false
	for i := 3; i < len(args); i++ {
		switch {
		case resp.IsWord(args[i], "PREFIX"):
			i++
		case resp.IsWord(args[i], "BCAST"):
			bcast = true
		case resp.IsWord(args[i], "OPTIN"):
			t.optIn = true
		case resp.IsWord(args[i], "OPTOUT"):
			t.optOut = true
		}
	}
	t.bcast.Store(bcast)
}

// accept applies options that Redis has accepted to all connections.
func (t *tracking) accept(primary *links.Node, args [][]byte, redirect *redirection) {
	c := t.client
	t.note(args)
	t.seen.Store(c.router.Topology())
	c.mu.Lock()
	t.accepted = append(t.accepted, cloneArgs(args))
	var others []*links.Node
	for n := range t.links {
		if n != primary {
			others = append(others, n)
		}
	}
	c.mu.Unlock()
	for _, n := range others {
		t.ask(n, args, redirect != nil)
	}
	if before := t.redirect.Load(); before != redirect {
		c.pingAll(t.listeners()) // earlier invalidations go to the previous target
		t.redirect.Store(redirect)
		before.end(t)
	}
	c.own.Store(t)
	if redirect != nil {
		redirect.to.addSource(t)
		t.connectAll()
		return
	}
	t.closeListeners()
	for _, l := range t.everywhere() {
		c.router.Gather(l, ping) // from now on, invalidations may come
	}
}

func cloneArgs(args [][]byte) (all [][]byte) {
	for _, arg := range args {
		all = append(all, bytes.Clone(arg))
	}
	return all
}

// everywhere connects to all masters if Redis reports keys that the session has not read. Safe for
// concurrent use.
func (t *tracking) everywhere() (links []*links.Link) {
	if t.redirect.Load() != nil {
		t.stale.CompareAndSwap(false, t.lacksConnection())
		return nil
	}
	if !t.bcast.Load() {
		return nil
	}
	for _, n := range t.client.router.Up.Topology().Masters() {
		links = append(links, t.Link(n))
	}
	return links
}

// lacksConnection reports whether a master has no connection. Safe for concurrent use.
func (t *tracking) lacksConnection() bool {
	masters := t.client.router.Up.Topology().Masters()
	t.client.mu.Lock()
	defer t.client.mu.Unlock()
	return slices.ContainsFunc(masters, func(n *links.Node) bool { return t.links[n] == nil })
}

func (t *tracking) stop() {
	c := t.client
	c.own.Store(nil)
	c.mu.Lock()
	t.stopped = true
	c.mu.Unlock()
	t.redirect.Load().end(t)
	t.close()
}

// HasPrefix implements route.Cache. The request is CLIENT CACHING.
func (t *tracking) HasPrefix() bool { return t.caching != nil }

// TakePrefix implements route.Cache.
func (t *tracking) TakePrefix() []byte {
	request := t.caching
	t.caching = nil
	return request
}

// Restart implements route.Cache. The session's lane or the topology has changed.
func (t *tracking) Restart() {
	t.seen.Store(t.client.router.Up.Topology())
	t.close()
	if t.redirect.Load() != nil {
		t.reconnect()
		return
	}
	t.forgetAll()
	t.everywhere()
}

// forgetAll tells the client that all its cached values are invalid, after the replies in flight.
// Safe for concurrent use.
func (t *tracking) forgetAll() {
	if r := t.redirect.Load(); r != nil {
		t.stale.Store(true) // once more, after the replies in flight
		r.send([]byte(resp.Null))
		return
	}
	c := t.client
	c.mu.Lock()
	var f links.Flusher
	if c.router.Lane.RESP3 && !t.stopped {
		f = c.calls.DeliverBehindLocked(c.calls.YoungestLocked(), []byte(InvalidateAll))
	}
	c.mu.Unlock()
	links.Flush(f)
}

func (t *tracking) close() {
	c := t.client
	c.mu.Lock()
	all := t.links
	t.links = make(map[*links.Node]*connection)
	c.mu.Unlock()
	for _, one := range all {
		one.closeListener()
		if !c.session.Keeps(one.link) {
			one.link.Unpin(false)
		}
	}
}
