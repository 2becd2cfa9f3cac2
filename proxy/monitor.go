package proxy

import (
	"bytes"

	"leash/proxy/resp"
)

// monitorSpecs is the specification of MONITOR.
func monitorSpecs() commandSpecs {
	return commandSpecs{"MONITOR": {(*session).monitor, pinnedConn, "shows what every master executes; the client addresses are those of Leash"}}
}

// monitor runs MONITOR (https://redis.io/docs/latest/commands/monitor/) on a connection to every
// master. It lasts until RESET or the end of the session. When one of the connections ends, Leash
// closes the session, because the client would miss lines.
func (s *session) monitor(c *command, cmd resp.Command) bool {
	switch {
	case !s.ready(c, cmd):
		return true
	case !s.adoptTopology() || !s.barrier():
		return false
	case len(s.monitors) > 0:
		return true // Redis does not answer either
	case len(s.topology.Masters()) == 0:
		return s.fail(msgSlotUnserved)
	}
	reply, request := []byte(resp.OK), bytes.Clone(cmd.Raw)
	for _, n := range s.topology.Masters() {
		l := n.Pin(s.lane, s.monitored)
		s.monitors = append(s.monitors, l)
		switch a := s.gather(l, request)[0]; {
		case a.lost:
			reply = resp.AppendError(nil, notSent(a.cause))
		case a.isError():
			reply = a.reply
		}
	}
	if reply[0] == '-' {
		s.endMonitor()
		return s.answer(reply)
	}
	ok := s.answer(reply)
	s.monitoring.Store(true) // lines before the OK are dropped
	for _, l := range s.monitors {
		if l.Ended() {
			s.kill("monitored connection lost", false)
		}
	}
	return ok
}

// monitored passes on a line. A nil line means that the connection to a node has ended.
func (s *session) monitored(line []byte) {
	if !s.monitoring.Load() {
		return
	}
	if line == nil {
		s.kill("monitored connection lost", false)
		return
	}
	if f := s.deliver(line); f != nil {
		f.Flush()
	}
}

// endMonitor ends MONITOR, if it runs.
func (s *session) endMonitor() {
	s.monitoring.Store(false)
	for _, l := range s.monitors {
		l.Unpin(false)
	}
	s.monitors = nil
}
