package proxy

import (
	"bytes"
	"slices"
	"sync/atomic"

	"leash/proxy/call"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/upstream"
)

// invalidateAll tells a client that all its cached values are invalid.
const invalidateAll = ">2\r\n$10\r\ninvalidate\r\n_\r\n"

// tracking is client-side caching
// (https://redis.io/docs/latest/develop/reference/client-side-caching/) of one session.
//
// Redis remembers for each connection which keys were read on it. So while tracking is on, the
// session's commands use connections of its own, one for each node.
//
// A client that gets an invalidation before an older reply would keep the stale value in that
// reply. So Leash passes an invalidation on after the replies that the same connection sent before
// it.
//
// When such a connection ends, Leash may miss invalidations. Leash then tells the client that all
// its cached values are invalid.
type tracking struct {
	session *session
	bcast   atomic.Bool
	optIn   bool
	optOut  bool
	caching []byte // CLIENT CACHING for the next command; used by the loop only

	redirect atomic.Pointer[redirection] // nil: invalidations go to the client itself
	// set with REDIRECT when a connection is missing or has ended; the loop makes it before the
	// next command
	stale atomic.Bool

	// arguments of CLIENT TRACKING ON without REDIRECT, for every connection; guarded by session.mu
	accepted [][][]byte
	links    map[*upstream.Node]*tracked // guarded by session.mu
	stopped  bool                        // guarded by session.mu

	seen atomic.Pointer[upstream.Topology] // the topology that the client's valid keys belong to
}

// tracked is the connection to one node.
type tracked struct {
	link *upstream.Link
	// gets the invalidations with REDIRECT, nil without it; guarded by session.mu
	listener *upstream.Link
	// the call whose reply came last and has not reached the client; guarded by session.mu
	last *call.Call
}

// Forget implements call.Tracker.
func (t *tracked) Forget(c *call.Call) {
	if t.last == c {
		t.last = nil
	}
}

// ask sends options to a node on the session's connection. Only the loop calls it, while no call is
// in flight.
func (t *tracking) ask(n *upstream.Node, args [][]byte, redirected bool) *route.Answer {
	link := t.open(n)
	if redirected {
		id, refusal := t.listen(n)
		if refusal != nil {
			return refusal
		}
		args = append(slices.Clone(args), []byte("REDIRECT"), resp.AppendDecimal(nil, id))
	}
	return t.session.router.Gather(link, resp.AppendCommand(nil, args...))[0]
}

// note records the options that matter to Leash.
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
func (t *tracking) accept(primary *upstream.Node, args [][]byte, redirect *redirection) {
	s := t.session
	t.note(args)
	t.seen.Store(s.router.Topology())
	s.mu.Lock()
	t.accepted = append(t.accepted, cloneArgs(args))
	var others []*upstream.Node
	for n := range t.links {
		if n != primary {
			others = append(others, n)
		}
	}
	s.mu.Unlock()
	for _, n := range others {
		t.ask(n, args, redirect != nil)
	}
	if t.redirect.Load() != redirect {
		s.pingAll(t.listeners()) // earlier invalidations go to the previous target
		t.redirect.Store(redirect)
	}
	s.tracking.Store(t)
	if redirect != nil {
		redirect.to.redirectedTo.Store(true)
		t.connectAll()
		return
	}
	t.closeListeners()
	for _, l := range t.everywhere() {
		s.router.Gather(l, ping) // from now on, invalidations may come
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
func (t *tracking) everywhere() (links []*upstream.Link) {
	if t.redirect.Load() != nil {
		t.stale.CompareAndSwap(false, t.lacksConnection())
		return nil
	}
	if !t.bcast.Load() {
		return nil
	}
	for _, n := range t.session.server.up.Topology().Masters() {
		links = append(links, t.Link(n))
	}
	return links
}

// lacksConnection reports whether a master has no connection. Safe for concurrent use.
func (t *tracking) lacksConnection() bool {
	masters := t.session.server.up.Topology().Masters()
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	for _, n := range masters {
		if t.links[n] == nil {
			return true
		}
	}
	return false
}

// stop ends tracking.
func (t *tracking) stop() {
	s := t.session
	s.tracking.Store(nil)
	s.mu.Lock()
	t.stopped = true
	s.mu.Unlock()
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
	t.seen.Store(t.session.server.up.Topology())
	t.close()
	if t.redirect.Load() != nil {
		t.reconnect()
		return
	}
	t.forgetAll()
	t.everywhere()
}

// checkTopology looks for moved slots for a session that sends nothing. A node sends no
// invalidations for slots that have left it. Only runSessionChecks calls it.
func (t *tracking) checkTopology() {
	now := t.session.server.up.Topology()
	if t.seen.Swap(now) != now {
		t.forgetAll()
	}
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
	s := t.session
	s.mu.Lock()
	var f upstream.Flusher
	if s.router.Lane.RESP3 && !t.stopped {
		f = s.calls.DeliverBehindLocked(s.calls.YoungestLocked(), []byte(invalidateAll))
	}
	s.mu.Unlock()
	if f != nil {
		f.Flush()
	}
}

// endTracking ends tracking, if it is on.
func (s *session) endTracking() {
	if t := s.tracking.Load(); t != nil {
		t.stop()
	}
}

func (t *tracking) close() {
	s := t.session
	s.mu.Lock()
	links := t.links
	t.links = make(map[*upstream.Node]*tracked)
	s.mu.Unlock()
	for _, one := range links {
		one.closeListener()
		if s.tx != nil && s.tx.link == one.link { // its keys are watched
			s.tx.tracked, s.tx.altered = false, true
			continue
		}
		one.link.Unpin(false)
	}
}

// Link implements route.Cache. It makes the connection if there is none.
func (t *tracking) Link(n *upstream.Node) *upstream.Link {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.stopped { // the session check may come after the end
		return n.Link(s.router.Lane)
	}
	one := t.links[n]
	switch {
	case one != nil && !one.link.Ended():
		return one.link
	case t.redirect.Load() != nil: // only the loop can make it
		t.stale.Store(true)
		return n.Link(s.router.Lane)
	case one != nil:
		t.lostLocked(n, one) // receive would notice it soon
	}
	one = t.pinLocked(n)
	for _, args := range t.accepted {
		one.link.Submit(&upstream.Call{Request: resp.AppendCommand(nil, args...), Sink: ignored{}})
	}
	return one.link
}

// pinLocked makes a connection to a node.
func (t *tracking) pinLocked(n *upstream.Node) *tracked {
	one := &tracked{}
	one.link = n.Pin(t.session.router.Lane, func(frame []byte) { t.receive(n, one, frame) })
	one.link.Steady(true)
	t.links[n] = one
	return one
}

// receive handles a frame that answers no call. It is an invalidation, or nil when the connection
// has ended.
func (t *tracking) receive(n *upstream.Node, one *tracked, frame []byte) {
	if t.redirect.Load() != nil && !bytes.HasPrefix(frame, []byte(invalidatePush)) {
		t.missed(n, one)
		return
	}
	s := t.session
	s.mu.Lock()
	var f upstream.Flusher
	switch {
	case t.stopped:
	case frame != nil:
		f = s.calls.DeliverBehindLocked(one.last, frame)
	case t.links[n] == one:
		f = t.lostLocked(n, one)
	}
	s.mu.Unlock()
	if f != nil {
		f.Flush()
	}
}

// lostLocked removes a connection that has ended. All values that were read on it count as invalid.
func (t *tracking) lostLocked(n *upstream.Node, one *tracked) upstream.Flusher {
	delete(t.links, n)
	one.link.Unpin(false)
	if !t.session.router.Lane.RESP3 {
		return nil
	}
	return t.session.calls.DeliverBehindLocked(one.last, []byte(invalidateAll))
}

// replied records that a node has sent the call's reply or a part of it.
func (t *tracking) replied(n *upstream.Node, c *call.Call) {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	if one := t.links[n]; one != nil {
		one.last = c
		c.TrackLocked(one)
	}
}

// ignored is the sink of commands whose replies are not needed.
type ignored struct{ upstream.Unlimited }

func (ignored) Reply([]byte, bool) upstream.Flusher { return nil }

func (ignored) Lost(bool, error) {}

func (ignored) Dropped() bool { return false }
