package proxy

import (
	"bytes"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// Redis's messages about tracking.
const (
	msgNoTracking = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or " +
		"OPTOUT mode enabled"
	msgNoOptIn  = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
	msgNoOptOut = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
)

// trackingHandlers are the commands of client-side caching.
func trackingHandlers() handlers {
	return handlers{
		"CLIENT|TRACKING":     (*session).clientTracking,
		"CLIENT|CACHING":      (*session).clientCaching,
		"CLIENT|GETREDIR":     (*session).clientGetRedir,
		"CLIENT|TRACKINGINFO": (*session).clientTrackingInfo,
	}
}

// clientTracking runs CLIENT TRACKING ON|OFF. Redis checks the options on a connection that becomes
// one of the session's.
func (s *session) clientTracking(c *command.Command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	args, redirect, refusal := s.redirectOf(cmd.Args)
	switch {
	case refusal != "":
		return s.fail(refusal)
	case !s.router.AdoptTopology() || !s.router.Barrier():
		return false
	case s.router.Keyless() == nil:
		return s.fail(call.ErrorUnserved)
	}
	on := !resp.IsWord(args[2], "OFF")
	if !on {
		redirect = nil
	}
	t := s.tracking.Load()
	if t == nil {
		t = &tracking{session: s, links: make(map[*upstream.Node]*tracked)}
	}
	before := t.redirect.Load()
	if before == nil {
		t.redirect.Store(redirect) // set first: an invalidation may come before the answer
	}
	primary := s.router.Keyless()
	a := t.ask(primary, args, redirect != nil)
	if a.Missing || a.IsError() {
		t.redirect.Store(before)
	}
	switch {
	case a.Missing:
		t.stop()
		return s.fail(call.ErrorLost)
	case !a.IsError() && !on:
		t.stop()
	case !a.IsError():
		t.accept(primary, args, redirect)
	case s.tracking.Load() == nil:
		t.stop()
	}
	return s.answer(a.Bytes)
}

// clientCaching answers CLIENT CACHING YES|NO. Leash sends it together with the next command, to
// the same node.
func (s *session) clientCaching(c *command.Command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	t := s.tracking.Load()
	yes := resp.IsWord(cmd.Args[2], "YES")
	switch {
	case t == nil:
		return s.fail(msgNoTracking)
	case !yes && !resp.IsWord(cmd.Args[2], "NO"):
		return s.fail(msgSyntax)
	case yes && !t.optIn:
		return s.fail(msgNoOptIn)
	case !yes && !t.optOut:
		return s.fail(msgNoOptOut)
	}
	t.caching = bytes.Clone(cmd.Raw)
	return s.ok()
}

func (s *session) clientGetRedir(c *command.Command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	s.scratch = resp.AppendInt(s.scratch[:0], s.redirectedFrom())
	return s.answer(s.scratch)
}

// clientTrackingInfo answers CLIENT TRACKINGINFO. When tracking is on, Redis makes the answer.
func (s *session) clientTrackingInfo(c *command.Command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	if t := s.tracking.Load(); t != nil && s.router.Keyless() != nil {
		if !s.router.Barrier() {
			return false
		}
		a := s.router.Gather(t.Link(s.router.Keyless()), bytes.Clone(cmd.Raw))[0]
		if a.Missing {
			return s.fail(call.ErrorLost)
		}
		if r := t.redirect.Load(); r != nil {
			return s.answer(r.info(a.Bytes))
		}
		return s.answer(a.Bytes)
	}
	set := "*1\r\n"
	if s.router.Lane.RESP3 {
		set = "~1\r\n"
	}
	b := resp.AppendBulk(resp.AppendPairs(s.scratch[:0], s.router.Lane.RESP3, 3), "flags")
	b = resp.AppendBulk(append(b, set...), "off")
	b = resp.AppendInt(resp.AppendBulk(b, "redirect"), -1)
	s.scratch = append(resp.AppendBulk(b, "prefixes"), resp.EmptyArray...)
	return s.answer(s.scratch)
}
