package tracking

import (
	"bytes"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/resp"
)

// Redis's messages about tracking.
const (
	msgNoTracking = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or " +
		"OPTOUT mode enabled"
	msgNoOptIn  = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
	msgNoOptOut = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
)

// Set answers CLIENT TRACKING ON|OFF. Redis checks the options on a connection that becomes one of
// the session's. It returns false when the session ends.
func (c *Client) Set(cmd resp.Command) (reply []byte, ok bool) {
	args, redirect, refusal := c.redirectOf(cmd.Args)
	switch {
	case refusal != "":
		return resp.AppendError(nil, refusal), true
	case !c.router.AdoptTopology() || !c.router.Barrier():
		return nil, false
	case c.router.Keyless() == nil:
		return resp.AppendError(nil, call.ErrorUnserved), true
	}
	on := !resp.IsWord(args[2], "OFF")
	if !on {
		redirect = nil
	}
	t := c.own.Load()
	if t == nil {
		t = &tracking{client: c, links: make(map[*links.Node]*connection)}
	}
	before := t.redirect.Load()
	if before == nil {
		t.redirect.Store(redirect) // set first: an invalidation may come before the answer
	}
	primary := c.router.Keyless()
	a := t.ask(primary, args, redirect != nil)
	if a.Missing || a.IsError() {
		t.redirect.Store(before)
	}
	switch {
	case a.Missing:
		t.stop()
		return resp.AppendError(nil, call.ErrorLost), true
	case !a.IsError() && !on:
		t.stop()
	case !a.IsError():
		t.accept(primary, args, redirect)
	case c.own.Load() == nil:
		t.stop()
	}
	return a.Bytes, true
}

// Prefix answers CLIENT CACHING YES|NO. Leash sends it together with the next command, to the same
// node.
func (c *Client) Prefix(cmd resp.Command) (reply []byte, ok bool) {
	t := c.own.Load()
	yes := resp.IsWord(cmd.Args[2], "YES")
	refusal := ""
	switch {
	case t == nil:
		refusal = msgNoTracking
	case !yes && !resp.IsWord(cmd.Args[2], "NO"):
		refusal = command.SyntaxError
	case yes && !t.optIn:
		refusal = msgNoOptIn
	case !yes && !t.optOut:
		refusal = msgNoOptOut
	default:
		t.caching = bytes.Clone(cmd.Raw)
		return []byte(resp.OK), true
	}
	return resp.AppendError(nil, refusal), true
}

// Target answers CLIENT GETREDIR.
func (c *Client) Target(resp.Command) (reply []byte, ok bool) {
	return resp.AppendInt(nil, c.View().Redirect), true
}

// Info answers CLIENT TRACKINGINFO while tracking is on. It returns false when the session ends.
func (c *Client) Info(cmd resp.Command) (reply []byte, ok bool) {
	t := c.own.Load()
	if t == nil || c.router.Keyless() == nil {
		return c.infoWithout(), true
	}
	if !c.router.Barrier() {
		return nil, false
	}
	a := c.router.Gather(t.Link(c.router.Keyless()), bytes.Clone(cmd.Raw))[0]
	r := t.redirect.Load()
	switch {
	case a.Missing:
		return resp.AppendError(nil, call.ErrorLost), true
	case r != nil:
		return r.info(a.Bytes), true
	}
	return a.Bytes, true
}

// infoWithout is the answer to CLIENT TRACKINGINFO without tracking.
func (c *Client) infoWithout() []byte {
	resp3 := c.router.Lane.RESP3
	b := resp.AppendBulk(resp.AppendPairs(nil, resp3, 3), "flags")
	b = resp.AppendBulk(resp.AppendSetHeader(b, resp3, 1), "off")
	b = resp.AppendInt(resp.AppendBulk(b, "redirect"), -1)
	return append(resp.AppendBulk(b, "prefixes"), resp.EmptyArray...)
}
