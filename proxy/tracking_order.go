package proxy

import (
	"leash/proxy/chunk"
	"leash/proxy/route"
	"leash/proxy/upstream"
)

// A client with a cache relies on one rule: a reply comes after the invalidations of all earlier
// writes. Examples of such replies are the PONG to its PING, an element from BLPOP and a lock. In
// Redis, replies and invalidations come on one connection.
//
// In Leash, most replies come on the connections that bring invalidations. Other replies come on
// other connections or from Leash itself. Leash delays them until the first connections have
// brought everything that Redis had sent on them.

// caches reports whether invalidations go to the session's client.
func (s *session) caches() bool { return s.tracking.Load() != nil || s.redirectedTo.Load() }

// awaitInvalidations waits until every connection that brings invalidations has brought what Redis
// has sent on it so far. These are the session's own connections and those that redirect to it. It
// returns false when the session ends.
func (s *session) awaitInvalidations() bool {
	if !s.caches() {
		return true
	}
	if !s.router.Barrier() {
		return false
	}
	return s.pingAll(s.invalidationLinks())
}

// invalidationLinks returns the connections that bring invalidations to the session's client, and
// those whose invalidations it redirects.
func (s *session) invalidationLinks() (links []*upstream.Link) {
	if t := s.tracking.Load(); t != nil {
		if t.redirect.Load() != nil {
			links = t.listeners()
		} else {
			links = t.connections()
		}
	}
	if !s.redirectedTo.Load() {
		return links
	}
	for _, one := range s.server.all() {
		t := one.tracking.Load()
		if t == nil || one == s {
			continue
		}
		if r := t.redirect.Load(); r != nil && r.to == s {
			links = append(links, t.listeners()...)
		}
	}
	return links
}

// connections returns the connections on which the session reads.
func (t *tracking) connections() (links []*upstream.Link) {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	for _, one := range t.links {
		links = append(links, one.link)
	}
	return links
}

// listeners returns the connections that get redirected invalidations.
func (t *tracking) listeners() (links []*upstream.Link) {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	for _, one := range t.links {
		if one.listener != nil {
			links = append(links, one.listener)
		}
	}
	return links
}

// pingAll waits for the reply to a PING on each of the given pinned links. It returns false when
// the session has ended.
func (s *session) pingAll(links []*upstream.Link) bool {
	var waits []*route.Gathering
	for _, l := range links {
		g, _ := s.router.Send(l, [][]byte{ping})
		waits = append(waits, g)
	}
	for i, g := range waits {
		g.Await(links[i])
	}
	return s.ctx.Err() == nil
}

// behindInvalidations runs f, whose command gets its reply on a connection without invalidations.
// The client gets that reply after the invalidations that Redis had sent before it.
func (s *session) behindInvalidations(f func() bool) bool {
	if !s.caches() {
		return f()
	}
	var held chunk.List
	s.calls.SendTo(&held)
	ok := f() && s.awaitInvalidations()
	s.calls.Restore(&held)
	return ok
}
