package proxy

import (
	"bytes"
	"sync/atomic"

	"leash/internal/limits"
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/resp"
)

// monitorHandlers is the specification of MONITOR.
func monitorHandlers() handlers {
	return handlers{"MONITOR": (*session).monitor}
}

// monitor has the connections on which Redis reports the commands that it executes.
type monitor struct {
	session *session
	links   []*links.Link // used by the session's loop only
	done    func()        // gives back what the user's limits count
	begun   atomic.Bool   // the client has got the OK; earlier lines are dropped
}

// monitor runs MONITOR (https://redis.io/docs/latest/commands/monitor/) on a connection to every
// master. It lasts until RESET or the end of the session. When one of the connections ends, Leash
// closes the session, because the client would miss lines.
func (s *session) monitor(c *command.Command, cmd resp.Command) bool {
	switch {
	case !s.router.Ready(c, cmd):
		return true
	case !s.router.AdoptTopology() || !s.router.Barrier():
		return false
	case s.monitoring.Load() != nil:
		return true // Redis does not answer either
	case len(s.router.Topology().Masters()) == 0:
		return s.fail(call.ErrorUnserved)
	}
	done, refusal := s.limits.Take(limits.Blocked)
	if refusal != "" {
		return s.fail(refusal)
	}
	m := &monitor{session: s, done: done}
	s.monitoring.Store(m)
	if refusal := m.start(cmd.Raw); refusal != nil {
		s.endMonitor()
		return s.answer(refusal)
	}
	ok := s.ok()
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
	if f := m.session.calls.Deliver(line); f != nil {
		f.Flush()
	}
}

// endMonitor ends MONITOR, if it runs.
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
