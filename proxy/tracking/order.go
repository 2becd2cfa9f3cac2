package tracking

import (
	"leash/proxy/chunk"
	"leash/proxy/links"
	"leash/proxy/resp"
)

// A client with a cache relies on one rule: a reply comes after the invalidations of all earlier
// writes. Examples of such replies are the PONG to its PING, an element from BLPOP and a lock. In
// Redis, replies and invalidations come on one connection.
//
// In Leash, most replies come on the connections that bring invalidations. Other replies come on
// other connections or from Leash itself. Leash delays them until the first connections have
// brought everything that Redis had sent on them.

// Expects reports whether invalidations go to the client. Safe for concurrent use.
func (c *Client) Expects() bool { return c.own.Load() != nil || c.isTarget.Load() }

// Await waits until every connection that brings invalidations has brought what Redis has sent on
// it so far. These are the session's own connections and those that redirect to it. It returns
// false when the session ends.
func (c *Client) Await() bool {
	if !c.Expects() {
		return true
	}
	if !c.router.Barrier() {
		return false
	}
	return c.pingAll(c.invalidationLinks())
}

// Behind runs f, whose command gets its reply on a connection without invalidations. The client
// gets that reply after the invalidations that Redis had sent before it.
func (c *Client) Behind(f func() bool) bool {
	if !c.Expects() {
		return f()
	}
	var captured chunk.List
	c.calls.SendTo(&captured)
	ok := f() && c.Await()
	c.calls.Restore(&captured)
	return ok
}

// invalidationLinks returns the connections that bring invalidations to the client, and those whose
// invalidations it redirects.
func (c *Client) invalidationLinks() (all []*links.Link) {
	if t := c.own.Load(); t != nil {
		if t.redirect.Load() != nil {
			all = t.listeners()
		} else {
			all = t.collect(func(one *connection) *links.Link { return one.link })
		}
	}
	for _, t := range c.allSources() {
		if r := t.redirect.Load(); r != nil && r.to == c && t.client != c {
			all = append(all, t.listeners()...)
		}
	}
	return all
}

// pingAll waits for the reply to a PING on each of the given pinned links. It returns false when
// the session has ended.
func (c *Client) pingAll(links []*links.Link) bool {
	c.router.GatherAll(links, ping)
	return !c.session.Ended()
}

var ping = resp.AppendCommand(nil, "PING")
