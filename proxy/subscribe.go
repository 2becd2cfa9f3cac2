package proxy

import (
	"leash/internal/limits"
	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/subscribers"
)

// subscriptionHandlers are the commands that begin and end subscriptions, and those that publish.
func subscriptionHandlers() handlers {
	all := handlers{
		"PUBLISH": func(s *session, _ *command.Command, cmd resp.Command) bool {
			return subscribers.Publish(&s.router, s.server.exchange, s.input.keep, cmd)
		},
		"SPUBLISH": func(s *session, c *command.Command, cmd resp.Command) bool {
			return subscribers.PublishSharded(&s.router, s.server.exchange, s.input.keep, c, cmd)
		},
	}
	for name, run := range subscribers.Changes() {
		all[name] = func(s *session, c *command.Command, cmd resp.Command) bool { return run(s.subscribing(), c, cmd) }
	}
	return all
}

// subscribing returns the session's subscriber, and makes it if there is none. It may be called
// from any goroutine.
func (s *session) subscribing() *subscribers.Subscriber {
	if one := s.subscriber.Load(); one != nil {
		return one
	}
	s.subscriber.CompareAndSwap(nil, subscribers.New(subscribers.Config{
		Session: (*owner)(s), Context: s.ctx, Exchange: s.server.exchange, Limits: &s.server.subscriberLimits,
		Router: &s.router, Calls: &s.calls, Out: &s.out, Mu: &s.mu,
	}))
	return s.subscriber.Load()
}

var _ subscribers.Session = (*owner)(nil)

// Room implements subscribers.Session.
func (o *owner) Room(more int) (refusal string) { return o.limits.Room(limits.Subscriptions, more) }

// Count implements subscribers.Session. It begins or ends RESP2 subscribe mode.
func (o *owner) Count(subscriptions int) {
	o.modes &^= modeSubscribed
	if subscriptions > 0 && !o.router.Lane.RESP3 {
		o.modes |= modeSubscribed
	}
	o.limits.Recount(limits.Subscriptions, subscriptions)
}

// EndSlow implements subscribers.Session.
func (o *owner) EndSlow() {
	o.server.stats.subscriberLimit.Add(1)
	o.server.log.Warn("subscriber does not read its messages, closing it", "session", o.id, "client",
		o.conn.RemoteAddr())
	o.End("output limit of subscribers")
}
