package proxy

import (
	"leash/lockcmd"
	"leash/proxy/command"
	"leash/proxy/locks"
	"leash/proxy/resp"
)

// lock runs a lock command. c is nil for an unknown one.
func lock(s *session, c *command.Command, cmd resp.Command) bool {
	return s.locks.Run(c, cmd) && !s.LeaveIfDraining()
}

// lockSession is a session as its locks see it.
type lockSession struct{ callSession }

var _ locks.Session = lockSession{}

// Identity implements locks.Session.
func (s *session) Identity() lockcmd.Client {
	return lockcmd.Client{Name: s.clientName(), User: s.user()}
}

// Cut implements locks.Session.
func (s lockSession) Cut(reason string) { s.kill(reason, true) }

// Notify implements locks.Session. It closes the connection of a client that leaves too much
// unread, as for a subscriber.
func (s lockSession) Notify(frame []byte) bool { return s.subscribing().Notify(frame) }

// isHolder reports whether the client has locks or permits. Safe for concurrent use.
func (s *session) isHolder() bool { return s.locks.Holds() > 0 }

// isBlocked reports whether the client waits in a command that blocks, or a lock command runs. Safe
// for concurrent use.
func (s *session) isBlocked() bool { return s.blocked.Load() != nil || s.locks.Running() }

// clientName is the client as logs and LOCK.INFO show it. Safe for concurrent use.
func (s *session) clientName() string {
	addr := s.conn.RemoteAddr()
	text := addr.String()
	if addr.Network() == "unix" {
		text = "unix:" + s.conn.LocalAddr().String()
	}
	if name := s.Labels().Name; name != "" {
		text += " " + name
	}
	return text
}
