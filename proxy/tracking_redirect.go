package proxy

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/upstream"
)

// CLIENT TRACKING ON REDIRECT id sends the invalidations of one client to another. It is for
// clients that use RESP2 (https://redis.io/docs/latest/commands/client-tracking/). Both must be
// clients of this Leash. For each node, the source has the connection on which it reads and a
// second one in RESP3, to which Redis redirects the invalidations. Leash writes them to the target
// as Redis would.

const (
	msgNoRedirectTarget = "ERR The client ID you want redirect to does not exist"
	msgOneRedirect      = "ERR A client can only redirect to a single other client"
)

// invalidatePush is the beginning of Redis's push. The names of the keys follow, or null for all
// keys.
const invalidatePush = ">2\r\n$10\r\ninvalidate\r\n"

// invalidateMessage is the beginning of an invalidation for a subscriber in RESP2.
const invalidateMessage = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"

// redirection says to which session the invalidations of a session go. Safe for concurrent use.
type redirection struct {
	from, to *session
	broken   atomic.Bool // the target was gone when an invalidation came
}

// redirectOf removes REDIRECT from the arguments of CLIENT TRACKING. refusal is Redis's error for a
// wrong REDIRECT. At an unknown argument it stops and returns no redirection, because Redis refuses
// the command.
func (s *session) redirectOf(args [][]byte) (rest [][]byte, to *redirection, refusal string) {
	i := min(3, len(args))
	rest = append(rest, args[:i]...)
	for ; i < len(args); i++ {
		more := i+1 < len(args)
		switch {
		case resp.IsWord(args[i], "REDIRECT") && more:
			i++
			id, ok := resp.ParseInt(args[i])
			target := s.server.sessionOf(id)
			switch {
			case to != nil:
				return nil, nil, msgOneRedirect
			case !ok:
				return nil, nil, msgNotInteger
			case target == nil:
				return nil, nil, msgNoRedirectTarget
			}
			to = &redirection{from: s, to: target}
		case resp.IsWord(args[i], "PREFIX") && more:
			rest = append(rest, args[i], args[i+1])
			i++
		case resp.IsWord(args[i], "BCAST"), resp.IsWord(args[i], "OPTIN"), resp.IsWord(args[i], "OPTOUT"),
			resp.IsWord(args[i], "NOLOOP"):
			rest = append(rest, args[i])
		default:
			return append(rest, args[i:]...), nil, ""
		}
	}
	return rest, to, ""
}

// redirectedFrom returns the answer to CLIENT GETREDIR. It is the id of the client that gets the
// invalidations, 0 for the session itself, or -1 without tracking.
func (s *session) redirectedFrom() int64 {
	t := s.tracking.Load()
	if t == nil {
		return -1
	}
	if r := t.redirect.Load(); r != nil {
		return r.to.id
	}
	return 0
}

// open returns the session's connection to a node. If there is none, it makes one and sends all
// options except REDIRECT. Only the loop calls it, while no call is in flight.
func (t *tracking) open(n *upstream.Node) *upstream.Link {
	if t.redirect.Load() == nil {
		return t.Link(n)
	}
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	if one := t.links[n]; one != nil {
		return one.link
	}
	return t.pinLocked(n).link
}

// listen returns Redis's id of the connection that gets the invalidations of a node. It makes the
// connection if there is none. If Redis refused it, refusal is the reason. Only the loop calls it,
// after open.
func (t *tracking) listen(n *upstream.Node) (id int64, refusal *route.Answer) {
	s := t.session
	s.mu.Lock()
	one := t.links[n]
	if one == nil { // it has ended already
		s.mu.Unlock()
		return 0, &route.Answer{Missing: true}
	}
	if one.listener == nil {
		lane := s.router.Lane
		lane.RESP3 = true
		one.listener = n.Pin(lane, func(frame []byte) { t.receiveRedirected(n, one, frame) })
		one.listener.Steady(true)
	}
	listener := one.listener
	s.mu.Unlock()
	a := s.router.Gather(listener, ping)[0]
	if id := listener.ClientID(); !a.Missing && id != 0 {
		return id, nil
	}
	return 0, &route.Answer{Missing: true, Cause: a.Cause}
}

// connect makes the source's two connections to a node. It reports whether Redis has accepted the
// options. Only the source's loop calls it.
func (t *tracking) connect(n *upstream.Node) bool {
	t.session.mu.Lock()
	accepted := t.accepted
	old := t.links[n]
	delete(t.links, n)
	t.session.mu.Unlock()
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

// reconnect calls connectAll when invalidations may have been missed. It then tells the target that
// all cached values are invalid.
func (t *tracking) reconnect() {
	t.connectAll()
	if r := t.redirect.Load(); r != nil {
		r.send([]byte(resp.Null))
	}
}

// connectAll makes the connections that are missing or have ended, to all masters. Only the
// source's loop calls it, while no call is in flight.
func (t *tracking) connectAll() {
	t.stale.Store(false)
	for _, n := range t.session.server.up.Topology().Masters() {
		t.session.mu.Lock()
		one := t.links[n]
		whole := one != nil && one.listener != nil && !one.link.Ended() && !one.listener.Ended()
		t.session.mu.Unlock()
		if !whole && !t.connect(n) {
			t.stale.Store(true) // try again at the next command
		}
	}
}

// receiveRedirected handles a frame of the connection that gets the invalidations. A nil frame
// means that the connection has ended.
func (t *tracking) receiveRedirected(n *upstream.Node, one *tracked, frame []byte) {
	r := t.redirect.Load()
	keys, ok := bytes.CutPrefix(frame, []byte(invalidatePush))
	switch {
	case r == nil:
	case ok:
		r.send(keys)
	case frame == nil:
		t.missed(n, one)
	}
}

// missed is called when one of the connections to a node has ended. Invalidations may be missing
// for keys that were read on it. So it tells the target that all cached values are invalid.
func (t *tracking) missed(n *upstream.Node, one *tracked) {
	t.stale.Store(true)
	t.session.mu.Lock()
	current := t.links[n] == one && !t.stopped
	t.session.mu.Unlock()
	if r := t.redirect.Load(); r != nil && current {
		r.send([]byte(resp.Null))
	}
}

// closeListeners ends the connections that get the invalidations for another client.
func (t *tracking) closeListeners() {
	t.session.mu.Lock()
	all := slices.Collect(maps.Values(t.links))
	t.session.mu.Unlock()
	for _, one := range all {
		t.session.mu.Lock()
		listener := one.listener
		one.listener = nil
		t.session.mu.Unlock()
		if listener != nil {
			listener.Unpin(false)
		}
	}
}

// closeListener ends the connection that gets invalidations. It may be called only for a tracked
// that is no longer in the map.
func (one *tracked) closeListener() {
	if one.listener != nil {
		one.listener.Unpin(false)
	}
}

// send sends the target an invalidation of keys, which is an array of names or null.
func (r *redirection) send(keys []byte) {
	if r.to.hasEnded() {
		r.sendBroken()
		return
	}
	r.to.mu.Lock()
	resp3 := r.to.router.Lane.RESP3
	r.to.mu.Unlock()
	var f upstream.Flusher
	switch {
	case resp3:
		f = r.to.calls.Deliver(append([]byte(invalidatePush), keys...))
	case !r.to.isSubscriber(): // Redis drops it too
	case string(keys) == resp.Null:
		f = (*subscriber)(r.to).Message([]byte(invalidateMessage + resp.NilBulk))
	default:
		f = (*subscriber)(r.to).Message(append([]byte(invalidateMessage), keys...))
	}
	if f != nil {
		f.Flush()
	}
}

// sendBroken tells a source in RESP3 that its target has gone.
func (r *redirection) sendBroken() {
	r.broken.Store(true)
	r.from.mu.Lock()
	resp3 := r.from.router.Lane.RESP3
	r.from.mu.Unlock()
	if !resp3 {
		return
	}
	frame := resp.AppendInt([]byte(">2\r\n$21\r\ntracking-redir-broken\r\n"), r.to.id)
	if f := r.from.calls.Deliver(frame); f != nil {
		f.Flush()
	}
}

// hasEnded reports whether the session's loop has ended or is about to end.
func (s *session) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over || s.cut
}

// isSubscriber reports whether the session has any subscription. It may be called from any
// goroutine that does not hold mu.
func (s *session) isSubscriber() bool {
	channels, patterns, shards := s.subscribedTo()
	return channels+patterns+shards > 0
}

// info returns Redis's reply to CLIENT TRACKINGINFO with the id of the target instead of the id of
// Leash's own connection.
func (r *redirection) info(reply []byte) []byte {
	const name = "$8\r\nredirect\r\n:"
	before, after, ok := bytes.Cut(reply, []byte(name))
	_, rest, ok2 := bytes.Cut(after, []byte("\r\n"))
	if !ok || !ok2 {
		return reply
	}
	if r.broken.Load() {
		before = withFlag(before, "broken_redirect")
	}
	out := append(bytes.Clone(before), name...)
	out = strconv.AppendInt(out, r.to.id, 10)
	return append(append(out, "\r\n"...), rest...)
}

// withFlag adds a flag to the set of flags that ends a reply to CLIENT TRACKINGINFO.
func withFlag(reply []byte, flag string) []byte {
	before, set, ok := bytes.Cut(reply, []byte("$5\r\nflags\r\n"))
	if !ok || len(set) == 0 {
		return reply
	}
	line, flags, _ := bytes.Cut(set[1:], []byte("\r\n"))
	n, ok := resp.ParseInt(line)
	if !ok {
		return reply
	}
	out := append(bytes.Clone(before), "$5\r\nflags\r\n"...)
	out = append(resp.AppendDecimal(append(out, set[0]), n+1), "\r\n"...)
	return resp.AppendBulk(append(out, flags...), flag)
}
