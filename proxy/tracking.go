package proxy

import (
	"bytes"
	"sync/atomic"

	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// Redis's messages about tracking.
const (
	msgNoTracking = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
	msgNoOptIn    = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
	msgNoOptOut   = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
)

// invalidateAll tells a client that it knows nothing any more.
const invalidateAll = ">2\r\n$10\r\ninvalidate\r\n_\r\n"

// trackingTreatments are the commands of client-side caching.
func trackingTreatments() treatments {
	return treatments{
		"CLIENT|TRACKING":     {(*session).clientTracking, pinnedConn, "on connections of the session's own; REDIRECT to a client of the same Leash"},
		"CLIENT|CACHING":      {(*session).clientCaching, answered, "sent along with the next command"},
		"CLIENT|GETREDIR":     {(*session).clientGetRedir, answered, ""},
		"CLIENT|TRACKINGINFO": {(*session).clientTrackingInfo, answered, ""},
	}
}

// tracking is client-side caching
// (https://redis.io/docs/latest/develop/reference/client-side-caching/) of one
// session. Redis remembers for a connection what it has read, so while tracking
// is on the session's commands go on connections of its own, one a node. An
// invalidation is passed on behind the replies that its connection sent before
// it, for a client that got it earlier would keep what the reply holds. When
// such a connection ends, whatever it was to be told is unknown, and the client
// is told that nothing is valid.
type tracking struct {
	session  *session
	commands [][]byte // accepted CLIENT TRACKING ON …, for every connection
	bcast    atomic.Bool
	optIn    bool
	optOut   bool

	redirect *redirection // nil: the client itself is told
	options  [][][]byte   // the commands without REDIRECT, when there is one

	links   map[*upstream.Node]*tracked // guarded by session.mu
	stopped bool                        // guarded by session.mu

	seen atomic.Pointer[upstream.Topology] // by which the client has been told what is valid
}

// tracked is the connection to one node.
type tracked struct {
	link *upstream.Link
	ear  *upstream.Link // of one that is redirected: on it Redis tells; nil otherwise
	last *call          // whose reply came from it last and is not with the client yet; guarded by session.mu
}

func (one *tracked) unpin() {
	one.link.Unpin(false)
	if one.ear != nil {
		one.ear.Unpin(false)
	}
}

// clientTracking runs CLIENT TRACKING ON|OFF. Redis checks the options, on the
// connection that then is one of the session's.
func (s *session) clientTracking(c *command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	args, redirect, refusal := s.redirectOf(cmd.Args)
	switch {
	case refusal != "":
		return s.fail(refusal)
	case !s.adoptTopology() || !s.barrier():
		return false
	case s.keyless < 0:
		return s.fail(msgSlotUnserved)
	}
	t := s.tracking.Load()
	if redirect != nil || t != nil && t.redirect != nil && isWord(args[2], "ON") {
		return s.trackAnew(t, args, redirect)
	}
	if t == nil {
		t = &tracking{session: s, links: make(map[*upstream.Node]*tracked)}
	}
	primary := t.link(s.topology.Masters()[s.keyless])
	request := resp.AppendCommand(nil, args...)
	a := s.gather(primary, request)[0]
	switch {
	case a.lost:
		t.stop()
		return s.fail(msgUpstreamLost)
	case !a.isError() && isWord(args[2], "OFF"):
		t.stop()
	case !a.isError():
		t.accept(primary, args, request)
	case s.tracking.Load() == nil:
		t.stop()
	}
	return s.answer(a.reply)
}

// trackAnew begins tracking with new connections, since where invalidations go
// has changed, and ends what was before if Redis takes the options.
func (s *session) trackAnew(old *tracking, args [][]byte, redirect *redirection) bool {
	if isWord(args[2], "OFF") {
		if old != nil {
			old.stop()
		}
		return s.ok()
	}
	t := &tracking{session: s, links: make(map[*upstream.Node]*tracked), redirect: redirect}
	t.note(args)
	if old != nil && old.bcast.Load() != t.bcast.Load() {
		return s.fail(msgSwitchBroadcast)
	}
	primary := s.topology.Masters()[s.keyless]
	var a *answer
	if redirect != nil {
		t.options = append(t.options, cloneArgs(args))
		a = t.connect(primary)
	} else {
		a = s.gather(t.link(primary), resp.AppendCommand(nil, args...))[0]
	}
	switch {
	case a.lost:
		t.stop()
		s.tracking.Store(old)
		return s.fail(msgUpstreamLost)
	case a.isError():
		t.stop()
		s.tracking.Store(old)
		return s.answer(a.reply)
	}
	if old != nil {
		old.stop()
	}
	if redirect == nil {
		t.accept(t.link(primary), args, resp.AppendCommand(nil, args...))
		return s.answer(a.reply)
	}
	redirect.to.redirectedTo.Store(true)
	t.seen.Store(s.topology)
	s.tracking.Store(t)
	t.connectAll()
	return s.answer(a.reply)
}

func cloneArgs(args [][]byte) (all [][]byte) {
	for _, arg := range args {
		all = append(all, bytes.Clone(arg))
	}
	return all
}

// note takes the options down that Leash must know of.
func (t *tracking) note(args [][]byte) {
	for i := 3; i < len(args); i++ {
		switch {
		case isWord(args[i], "PREFIX"):
			i++
		case isWord(args[i], "BCAST"):
			t.bcast.Store(true)
		case isWord(args[i], "OPTIN"):
			t.optIn = true
		case isWord(args[i], "OPTOUT"):
			t.optOut = true
		}
	}
}

// accept applies options that Redis has taken to all connections.
func (t *tracking) accept(primary *upstream.Link, args [][]byte, request []byte) {
	s := t.session
	t.note(args)
	t.seen.Store(s.topology)
	s.mu.Lock()
	t.commands = append(t.commands, request)
	var others []*upstream.Link
	for _, one := range t.links {
		if one.link != primary {
			others = append(others, one.link)
		}
	}
	s.mu.Unlock()
	for _, l := range others {
		s.gather(l, request)
	}
	s.tracking.Store(t)
	for _, l := range t.everywhere() {
		s.gather(l, ping) // from here on it tells
	}
}

// everywhere connects to all masters when Redis is to tell of keys that the
// session has not read. Safe for concurrent use.
func (t *tracking) everywhere() (links []*upstream.Link) {
	if t.redirect != nil {
		t.redirect.stale.CompareAndSwap(false, t.lacks())
		return nil
	}
	if !t.bcast.Load() {
		return nil
	}
	for _, n := range t.session.server.up.Topology().Masters() {
		links = append(links, t.link(n))
	}
	return links
}

// lacks reports whether a master has no connection. Safe for concurrent use.
func (t *tracking) lacks() bool {
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
	s.caching = nil
	s.mu.Lock()
	t.stopped = true
	s.mu.Unlock()
	t.close()
}

// restart gives all connections up, because the session's lane or the topology
// has changed. Only while no call is in flight.
func (t *tracking) restart() {
	t.seen.Store(t.session.server.up.Topology())
	t.close()
	if t.redirect != nil {
		t.reconnect()
		return
	}
	t.forgetAll()
	t.everywhere()
}

// look notices what concerns a session that sends nothing: of slots that have
// moved nothing is told where they were. Of the patrol's goroutine.
func (t *tracking) look() {
	now := t.session.server.up.Topology()
	if t.seen.Swap(now) != now {
		t.forgetAll()
	}
	t.everywhere()
}

// forgetAll tells the client that nothing is valid, behind the replies under
// way. Safe for concurrent use.
func (t *tracking) forgetAll() {
	if t.redirect != nil {
		t.redirect.stale.Store(true) // once more, behind the replies under way
		t.redirect.send([]byte(resp.Null))
		return
	}
	s := t.session
	s.mu.Lock()
	var f upstream.Flusher
	if s.lane.RESP3 && !t.stopped {
		f = s.deliverBehindLocked(s.tail, []byte(invalidateAll))
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
		if s.tx != nil && s.tx.link == one.link { // on which keys are watched
			s.tx.tracked, s.tx.altered = false, true
			if one.ear != nil {
				one.ear.Unpin(false)
			}
			continue
		}
		one.unpin()
	}
}

// link returns the session's connection to a node; it is made when there is
// none. Safe for concurrent use.
func (t *tracking) link(n *upstream.Node) *upstream.Link {
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.stopped { // the patrol is late
		return n.Link(s.lane)
	}
	if one := t.links[n]; one != nil {
		if !one.link.Ended() {
			return one.link
		}
		t.lostLocked(n, one) // stray is about to learn of it
	}
	if t.redirect != nil { // the loop connects before its next command, and has all forgotten
		t.redirect.stale.Store(true)
		return n.Link(s.lane)
	}
	one := &tracked{}
	one.link = n.Pin(s.lane, func(frame []byte) { t.stray(n, one, frame) })
	t.links[n] = one
	for _, request := range t.commands {
		one.link.Submit(&upstream.Call{Request: request, Sink: ignored{}})
	}
	return one.link
}

// stray takes what a connection says that answers no command: an invalidation,
// or nil when it has ended.
func (t *tracking) stray(n *upstream.Node, one *tracked, frame []byte) {
	s := t.session
	s.mu.Lock()
	var f upstream.Flusher
	switch {
	case t.stopped:
	case frame != nil:
		f = s.deliverBehindLocked(one.last, frame)
	case t.links[n] == one:
		f = t.lostLocked(n, one)
	}
	s.mu.Unlock()
	if f != nil {
		f.Flush()
	}
}

// lostLocked gives up a connection that has ended: nothing that was read on it
// is valid any more.
func (t *tracking) lostLocked(n *upstream.Node, one *tracked) upstream.Flusher {
	delete(t.links, n)
	one.unpin()
	if t.redirect != nil {
		t.redirect.stale.Store(true)
		return nil
	}
	if !t.session.lane.RESP3 {
		return nil
	}
	return t.session.deliverBehindLocked(one.last, []byte(invalidateAll))
}

// overtakes reports whether the reply to a command could come before
// invalidations that Redis has sent already, for it comes from elsewhere.
func (c *command) overtakes() bool {
	return c.class == answered || c.class == anyNode || c.class == everyNode
}

// sync waits until every connection has brought what Redis has sent on it so
// far: a client takes the reply to PING as a sign that it knows of all that was
// written before. It is false when the session ends.
func (t *tracking) sync() bool {
	s := t.session
	if !s.barrier() {
		return false
	}
	s.mu.Lock()
	var links []*upstream.Link
	for _, one := range t.links {
		links = append(links, one.link)
	}
	s.mu.Unlock()
	return s.pingAll(links)
}

// pingAll waits for the reply to a PING on each of some private links.
func (s *session) pingAll(links []*upstream.Link) bool {
	var waits []*gathering
	for _, l := range links {
		g, _ := s.submit(l, [][]byte{ping})
		waits = append(waits, g)
	}
	for i, g := range waits {
		g.await(links[i])
	}
	return s.ctx.Err() == nil
}

// replied remembers that the call's reply, or part of it, has come from a node.
func (t *tracking) replied(n *upstream.Node, c *call) {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	if one := t.links[n]; one != nil {
		one.last = c
		c.tracked = append(c.tracked, one)
	}
}

// ignored is the sink of commands whose replies nobody needs.
type ignored struct{ upstream.Unlimited }

func (ignored) Reply([]byte, bool) upstream.Flusher { return nil }
func (ignored) Lost(bool, error)                    {}
func (ignored) Dropped() bool                       { return false }

// clientCaching answers CLIENT CACHING YES|NO, which is for the next command:
// it goes out together with that, wherever it goes.
func (s *session) clientCaching(c *command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	t := s.tracking.Load()
	yes := isWord(cmd.Args[2], "YES")
	switch {
	case t == nil:
		return s.fail(msgNoTracking)
	case !yes && !isWord(cmd.Args[2], "NO"):
		return s.fail(msgSyntax)
	case yes && !t.optIn:
		return s.fail(msgNoOptIn)
	case !yes && !t.optOut:
		return s.fail(msgNoOptOut)
	}
	s.caching = bytes.Clone(cmd.Raw)
	return s.ok()
}

func (s *session) clientGetRedir(c *command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	if t := s.tracking.Load(); t != nil && t.redirect != nil {
		s.scratch = resp.AppendInt(s.scratch[:0], t.redirect.to.id)
		return s.answer(s.scratch)
	} else if t != nil {
		return s.answer([]byte(":0\r\n"))
	}
	return s.answer([]byte(":-1\r\n"))
}

// clientTrackingInfo lets Redis tell, when tracking is on.
func (s *session) clientTrackingInfo(c *command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	if t := s.tracking.Load(); t != nil && s.keyless >= 0 {
		if !s.barrier() {
			return false
		}
		a := s.gather(t.link(s.topology.Masters()[s.keyless]), bytes.Clone(cmd.Raw))[0]
		if a.lost {
			return s.fail(msgUpstreamLost)
		}
		if t.redirect != nil {
			return s.answer(t.redirectedInfo(a.reply))
		}
		return s.answer(a.reply)
	}
	set := "*1\r\n"
	if s.lane.RESP3 {
		set = "~1\r\n"
	}
	b := resp.AppendBulk(appendPairs(s.scratch[:0], s.lane.RESP3, 3), "flags")
	b = resp.AppendBulk(append(b, set...), "off")
	b = resp.AppendInt(resp.AppendBulk(b, "redirect"), -1)
	s.scratch = append(resp.AppendBulk(b, "prefixes"), resp.EmptyArray...)
	return s.answer(s.scratch)
}
