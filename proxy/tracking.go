package proxy

import (
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/tracking"
)

// trackingHandlers are the commands of client-side caching.
func trackingHandlers() handlers {
	return handlers{
		"CLIENT|TRACKING":     onTracking((*tracking.Client).Set),
		"CLIENT|CACHING":      onTracking((*tracking.Client).Prefix),
		"CLIENT|GETREDIR":     onTracking((*tracking.Client).Target),
		"CLIENT|TRACKINGINFO": onTracking((*tracking.Client).Info),
	}
}

// onTracking is the handler of a command that answers something about client-side caching.
func onTracking(answer func(*tracking.Client, resp.Command) (reply []byte, ok bool)) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool {
		if !s.router.Ready(c, cmd) {
			return true
		}
		reply, ok := answer(s.caching(), cmd)
		return ok && s.answer(reply)
	}
}

// caching returns the session's client-side caching, and makes it if there is none. It may be
// called from any goroutine.
func (s *session) caching() *tracking.Client {
	if t := s.tracking.Load(); t != nil {
		return t
	}
	s.tracking.CompareAndSwap(nil, tracking.New(s.id, (*owner)(s), s.server.up, &s.router, &s.calls, &s.mu))
	return s.tracking.Load()
}

var _ tracking.Session = (*owner)(nil)

// Caching implements tracking.Session.
func (o *owner) Caching(id int64) *tracking.Client {
	if one := o.server.sessionOf(id); one != nil {
		return one.caching()
	}
	return nil
}

// Ended implements tracking.Session.
func (o *owner) Ended() bool { return o.end.Ended() }

// Tell implements tracking.Session.
func (o *owner) Tell(frame []byte) links.Flusher {
	if !o.Subscribed() {
		return nil // Redis drops it too
	}
	return o.subscriber.Load().Message(frame)
}

// Keeps implements tracking.Session.
func (o *owner) Keeps(l *links.Link) bool { return o.tx.Keep(l) }
