package proxy

import (
	"bytes"
	"sync/atomic"

	"leash/internal/limits"
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/subscribers"
	"leash/proxy/tracking"
)

// subscriptionHandlers are the commands that begin and end subscriptions, and those that publish.
func subscriptionHandlers() handlers {
	publish := func(s *session, c *command.Command, cmd resp.Command) bool {
		return subscribers.Publish(&s.router, s.server.exchange, s.input.keep, c, cmd)
	}
	all := family("", subscribers.Changes(), func(run subscribers.Change) handler {
		return func(s *session, c *command.Command, cmd resp.Command) bool { return run(s.subscribing(), c, cmd) }
	})
	all["PUBLISH"], all["SPUBLISH"] = publish, publish
	return all
}

// subscribing returns the session's subscriber, and makes it if there is none. It may be called
// from any goroutine.
func (s *session) subscribing() *subscribers.Subscriber {
	if one := s.subscriber.Load(); one != nil {
		return one
	}
	s.subscriber.CompareAndSwap(nil, subscribers.New(subscribers.Config{
		Session: subscriberSession{s}, Exchange: s.server.exchange, Limits: &s.server.cfg.SubscriberLimits,
		Router: &s.router,
	}))
	return s.subscriber.Load()
}

// subscriberSession is a session as its subscriptions see it.
type subscriberSession struct{ *session }

var _ subscribers.Session = subscriberSession{}

// Room implements subscribers.Session.
func (s subscriberSession) Room(more int) (refusal string) {
	return s.limits.Room(limits.Subscriptions, more)
}

// Count implements subscribers.Session. It begins or ends RESP2 subscribe mode.
func (s *session) Count(subscriptions int) {
	s.modes &^= modeSubscribed
	if subscriptions > 0 && !s.router.Lane.RESP3 {
		s.modes |= modeSubscribed
	}
	s.limits.Recount(limits.Subscriptions, subscriptions)
}

// EndSlow implements subscribers.Session.
func (s subscriberSession) EndSlow() {
	s.server.stats.subscriberLimit.Add(1)
	s.server.log.Warn("subscriber does not read its messages, closing it", "session", s.id, "client",
		s.conn.RemoteAddr())
	s.End("output limit of subscribers")
}

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
	return ready(func(s *session, _ *command.Command, cmd resp.Command) bool {
		reply, ok := answer(&s.tracking, cmd)
		return ok && s.router.Answer(reply)
	})
}

// trackingSession is a session as its client-side caching sees it.
type trackingSession struct{ *session }

var _ tracking.Session = trackingSession{}

// Caching implements tracking.Session.
func (s trackingSession) Caching(id int64) *tracking.Client {
	if one := s.server.sessionOf(id); one != nil {
		return &one.tracking
	}
	return nil
}

// Ended implements tracking.Session.
func (s trackingSession) Ended() bool { return s.end.Ended() }

// Tell implements tracking.Session.
func (s trackingSession) Tell(frame []byte) links.Flusher {
	if !s.Subscribed() {
		return nil // Redis drops it too
	}
	return s.subscriber.Load().Message(frame)
}

// Keeps implements tracking.Session.
func (s trackingSession) Keeps(l *links.Link) bool { return s.tx.Keep(l) }

// monitor has the connections on which Redis reports the commands that it executes.
type monitor struct {
	session *session
	links   []*links.Link // used by the session's loop only
	done    func()        // gives back what the user's limits count
	begun   atomic.Bool   // the client has got the OK; earlier lines are dropped
}

// startMonitor runs MONITOR (https://redis.io/docs/latest/commands/monitor/) on a connection to every
// master. It lasts until RESET or the end of the session. When one of the connections ends, Leash
// closes the session, because the client would miss lines.
func startMonitor(s *session, _ *command.Command, cmd resp.Command) bool {
	switch {
	case !s.router.AdoptTopology() || !s.router.Barrier():
		return false
	case s.monitoring.Load() != nil:
		return true // Redis does not answer either
	case len(s.router.Topology().Masters()) == 0:
		return s.router.Fail(call.ErrorUnserved)
	}
	done, refusal := s.limits.Take(limits.Blocked)
	if refusal != "" {
		return s.router.Fail(refusal)
	}
	m := &monitor{session: s, done: done}
	s.monitoring.Store(m)
	if refusal := m.start(cmd.Raw); refusal != nil {
		s.endMonitor()
		return s.router.Answer(refusal)
	}
	ok := s.router.OK()
	m.begun.Store(true)
	for _, l := range m.links {
		if l.Ended() {
			m.line(nil)
		}
	}
	return ok
}

// start sends MONITOR to every master. It returns an error reply if one does not accept it.
func (m *monitor) start(request []byte) (refusal []byte) {
	request = bytes.Clone(request)
	for _, n := range m.session.router.Topology().Masters() {
		l := n.Pin(m.session.router.Lane, m.line)
		m.links = append(m.links, l)
		switch a := m.session.router.Gather(l, request)[0]; {
		case a.Missing:
			refusal = resp.AppendError(nil, call.NotSent(a.Cause))
		case a.IsError():
			refusal = a.Bytes
		}
	}
	return refusal
}

// line passes on a line. A nil line means that the connection to a node has ended.
func (m *monitor) line(line []byte) {
	if !m.begun.Load() {
		return
	}
	if line == nil {
		m.session.kill("monitored connection lost", false)
		return
	}
	links.Flush(m.session.calls.Deliver(line))
}

func (s *session) endMonitor() {
	m := s.monitoring.Swap(nil)
	if m == nil {
		return
	}
	m.begun.Store(false)
	m.done()
	for _, l := range m.links {
		l.Unpin(false)
	}
}
