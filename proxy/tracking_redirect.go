package proxy

import (
	"bytes"
	"slices"
	"strconv"
	"sync/atomic"

	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// CLIENT TRACKING ON REDIRECT id sends the invalidations of one client to another, as clients need it that speak RESP2
// (https://redis.io/docs/latest/commands/client-tracking/). Both are clients of this Leash. For each node the source has, beside
// the connection on which it reads, one in RESP3 that Redis redirects to, and that hears the invalidations; they are written to the
// target as Redis would write them.

const (
	msgNoRedirectTarget = "ERR The client ID you want redirect to does not exist"
	msgOneRedirect      = "ERR A client can only redirect to a single other client"
	msgSwitchBroadcast  = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, " +
		"and then re-enabling it with a different mode."
)

// invalidatePush begins what Redis pushes; the names of the keys follow, or null for all.
const invalidatePush = ">2\r\n$10\r\ninvalidate\r\n"

// invalidateMessage is how a subscriber in RESP2 is told of them.
const invalidateMessage = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"

// redirection is where the invalidations of a session go. Safe for concurrent use.
type redirection struct {
	from, to *session
	stale    atomic.Bool // a connection is missing or has ended: the source's loop sees to it at its next command
	broken   atomic.Bool // the target was gone when it was to be told
}

// redirectOf takes REDIRECT out of the arguments of CLIENT TRACKING. refusal is Redis's error for what it says there.
func (s *session) redirectOf(args [][]byte) (rest [][]byte, to *redirection, refusal string) {
	for i := 0; i < len(args); i++ {
		switch {
		case i > 2 && isWord(args[i], "PREFIX") && i+1 < len(args):
			rest = append(rest, args[i])
			i++
		case i > 2 && isWord(args[i], "REDIRECT"):
			if i++; i == len(args) {
				return nil, nil, msgSyntax
			}
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
			continue
		}
		rest = append(rest, args[i])
	}
	return rest, to, ""
}

// connect makes the source's two connections to a node, and returns Redis's answer to the options. Of the source's loop.
func (t *tracking) connect(n *upstream.Node) *answer {
	s := t.session
	lane := s.lane
	lane.RESP3 = true
	one := &tracked{}
	one.ear = n.Pin(lane, func(frame []byte) { t.heard(n, one, frame) })
	one.link = n.Pin(s.lane, func([]byte) { t.redirect.stale.Store(true) })
	a := s.gather(one.ear, ping)[0]
	for _, args := range t.options {
		if a.lost || a.isError() && !bytes.HasPrefix(a.reply, []byte("-NOPERM ")) {
			break
		}
		id := resp.AppendDecimal(nil, one.ear.ClientID())
		a = s.gather(one.link, resp.AppendCommand(nil, append(slices.Clone(args), []byte("REDIRECT"), id)...))[0]
	}
	if a.lost || a.isError() {
		one.unpin()
		return a
	}
	s.mu.Lock()
	old := t.links[n]
	t.links[n] = one
	s.mu.Unlock()
	if old != nil {
		old.unpin()
	}
	return a
}

// reconnect is connectAll when something may not have been told: then the target is told that nothing is valid.
func (t *tracking) reconnect() {
	t.connectAll()
	t.redirect.send([]byte(resp.Null))
}

// connectAll sees to it that there are connections to all masters. Of the source's loop, while no call is in flight.
func (t *tracking) connectAll() {
	t.redirect.stale.Store(false)
	for _, n := range t.session.server.up.Topology().Masters() {
		t.session.mu.Lock()
		one := t.links[n]
		t.session.mu.Unlock()
		if one != nil && !one.link.Ended() && !one.ear.Ended() {
			continue
		}
		if a := t.connect(n); a.lost || a.isError() {
			t.redirect.stale.Store(true) // again at the next command
		}
	}
}

// heard takes what the connection that hears says, or nil when it has ended.
func (t *tracking) heard(n *upstream.Node, one *tracked, frame []byte) {
	if frame == nil {
		t.redirect.stale.Store(true)
		t.session.mu.Lock()
		current := t.links[n] == one && !t.stopped
		t.session.mu.Unlock()
		if current {
			t.redirect.send([]byte(resp.Null))
		}
		return
	}
	if keys, ok := bytes.CutPrefix(frame, []byte(invalidatePush)); ok {
		t.redirect.send(keys)
	}
}

// send tells the target of keys, an array of names or null.
func (r *redirection) send(keys []byte) {
	if r.to.hasEnded() {
		r.tellBroken()
		return
	}
	var frame []byte
	r.to.mu.Lock()
	switch {
	case r.to.lane.RESP3:
		frame = append([]byte(invalidatePush), keys...)
	case !r.to.isSubscriber():
	case string(keys) == resp.Null:
		frame = []byte(invalidateMessage + resp.NilBulk)
	default:
		frame = append([]byte(invalidateMessage), keys...)
	}
	r.to.mu.Unlock()
	if frame == nil {
		return // Redis drops it as well
	}
	if f := r.to.deliver(frame); f != nil {
		f.Flush()
	}
}

// tellBroken tells a source in RESP3 that its target is gone.
func (r *redirection) tellBroken() {
	r.broken.Store(true)
	r.from.mu.Lock()
	speaks := r.from.lane.RESP3
	r.from.mu.Unlock()
	if !speaks {
		return
	}
	frame := resp.AppendInt([]byte(">2\r\n$21\r\ntracking-redir-broken\r\n"), r.to.id)
	if f := r.from.deliver(frame); f != nil {
		f.Flush()
	}
}

// hasEnded reports whether the session's loop is over, or about to be.
func (s *session) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over || s.cut
}

// isSubscriber reports whether the session is subscribed to anything.
func (s *session) isSubscriber() bool {
	l := s.listener.Load()
	if l == nil {
		return false
	}
	channels, patterns, shards := l.Tally()
	return channels+patterns+shards > 0
}

// ears are the connections on which the session's redirected invalidations are heard.
func (t *tracking) ears() (ears []*upstream.Link) {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	for _, one := range t.links {
		if one.ear != nil {
			ears = append(ears, one.ear)
		}
	}
	return ears
}

// syncRedirected is sync for a session that others redirect to: what Redis has told their connections so far is with the client
// before the reply to PING.
func (s *session) syncRedirected() bool {
	var ears []*upstream.Link
	for _, one := range s.server.all() {
		if t := one.tracking.Load(); t != nil && t.redirect != nil && t.redirect.to == s {
			ears = append(ears, t.ears()...)
		}
	}
	return s.pingAll(ears)
}

// redirectedInfo is Redis's CLIENT TRACKINGINFO with the client that is redirected to, in place of Leash's own connection.
func (t *tracking) redirectedInfo(reply []byte) []byte {
	const name = "$8\r\nredirect\r\n:"
	before, after, ok := bytes.Cut(reply, []byte(name))
	_, rest, ok2 := bytes.Cut(after, []byte("\r\n"))
	if !ok || !ok2 {
		return reply
	}
	if t.redirect.broken.Load() {
		before = withFlag(before, "broken_redirect")
	}
	out := append(bytes.Clone(before), name...)
	out = strconv.AppendInt(out, t.redirect.to.id, 10)
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
