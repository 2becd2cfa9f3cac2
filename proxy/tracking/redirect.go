package tracking

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/resp"
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

// redirection says to which client the invalidations of a client go. Safe for concurrent use.
type redirection struct {
	from, to *Client
	broken   atomic.Bool // the target was gone when an invalidation came
}

// redirectOf removes REDIRECT from the arguments of CLIENT TRACKING. refusal is Redis's error for a
// wrong REDIRECT. At an unknown argument it stops and returns no redirection, because Redis refuses
// the command.
func (c *Client) redirectOf(args [][]byte) (rest [][]byte, to *redirection, refusal string) {
	i := min(3, len(args))
	rest = append(rest, args[:i]...)
	for ; i < len(args); i++ {
		more := i+1 < len(args)
		switch {
		case resp.IsWord(args[i], "REDIRECT") && more:
			i++
			id, ok := resp.ParseInt(args[i])
			target := c.session.Caching(id)
			switch {
			case to != nil:
				return nil, nil, msgOneRedirect
			case !ok:
				return nil, nil, command.NotInteger
			case target == nil:
				return nil, nil, msgNoRedirectTarget
			}
			to = &redirection{from: c, to: target}
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

// addSource records that the invalidations of t go to the client from now on. Safe for concurrent
// use.
func (c *Client) addSource(t *tracking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sources == nil {
		c.sources = make(map[*tracking]struct{})
	}
	c.sources[t] = struct{}{}
	c.isTarget.Store(true)
}

// allSources returns those whose invalidations go to the client, and perhaps others.
func (c *Client) allSources() []*tracking {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.sources))
}

// end records that the target gets nothing more from t. There may be no redirection.
func (r *redirection) end(t *tracking) {
	if r == nil {
		return
	}
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	delete(r.to.sources, t)
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
	for _, n := range t.client.router.Up.Topology().Masters() {
		t.client.mu.Lock()
		one := t.links[n]
		whole := one != nil && one.listener != nil && !one.link.Ended() && !one.listener.Ended()
		t.client.mu.Unlock()
		if !whole && !t.connect(n) {
			t.stale.Store(true) // try again at the next command
		}
	}
}

// receiveRedirected handles a frame of the connection that gets the invalidations. A nil frame
// means that the connection has ended.
func (t *tracking) receiveRedirected(n *links.Node, one *connection, frame []byte) {
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
func (t *tracking) missed(n *links.Node, one *connection) {
	t.stale.Store(true)
	t.client.mu.Lock()
	current := t.links[n] == one && !t.stopped
	t.client.mu.Unlock()
	if r := t.redirect.Load(); r != nil && current {
		r.send([]byte(resp.Null))
	}
}

// send sends the target an invalidation of keys, which is an array of names or null.
func (r *redirection) send(keys []byte) {
	if r.to.session.Ended() {
		r.sendBroken()
		return
	}
	r.to.mu.Lock()
	resp3 := r.to.router.Lane.RESP3
	r.to.mu.Unlock()
	var f links.Flusher
	switch {
	case resp3:
		f = r.to.calls.Deliver(append([]byte(invalidatePush), keys...))
	case string(keys) == resp.Null:
		f = r.to.session.Tell([]byte(invalidateMessage + resp.NilBulk))
	default:
		f = r.to.session.Tell(append([]byte(invalidateMessage), keys...))
	}
	links.Flush(f)
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
	frame := resp.AppendInt([]byte(">2\r\n$21\r\ntracking-redir-broken\r\n"), r.to.router.ID)
	links.Flush(r.from.calls.Deliver(frame))
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
	out = strconv.AppendInt(out, r.to.router.ID, 10)
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
