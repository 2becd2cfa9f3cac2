package proxy

import (
	"context"
	"slices"
	"time"

	"leash/proxy/command"
	"leash/proxy/resp"
)

// Bounds of an orderly stop, in addition to Config.DrainTimeout.
const (
	lastRenewal = time.Second // to renew every hold once more
	// to answer calls in flight and to write their replies; then as long again for killed sessions
	lastCalls = time.Second
)

// drain ends all sessions (rule R31):
//
//   - No lock is granted any more. Clients with LOCK.NOTIFY are told.
//   - A session without holds ends when its calls in flight have their replies.
//   - Sessions with holds have Config.DrainTimeout to finish.
//   - Then every hold is renewed once more to its full TTL, and the connections close. The owner
//     can attach through another Leash.
func (s *Server) drain() {
	for _, one := range s.all() { // first, because a session without holds leaves soon
		if c := one.locks.Carrier(); c != nil {
			c.ReportDraining(s.Settings().DrainTimeout)
		}
	}
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.locks.Drain()
	began := time.Now()
	timeout := s.Settings().DrainTimeout
	deadline := began.Add(timeout)
	holders := s.count((*session).isHolder)
	s.log.Info("leash stops", "clients", s.sessionCount(), "holders", holders, "drain-timeout", timeout)
	for _, one := range s.all() {
		// A lock command that runs may have been granted a lock. Its session looks itself after it.
		if !one.locks.Running() {
			one.LeaveIfDraining()
		}
	}
	s.awaitSessions(deadline)
	if holders > 0 {
		s.logDrained(time.Since(began))
	}

	if s.sessionCount() > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), lastRenewal)
		s.locks.RenewAll(ctx)
		cancel()
		s.locks.EndLossWaits()
		for _, one := range s.all() {
			one.leave()
		}
		s.awaitSessions(time.Now().Add(lastCalls))
	}
	for _, one := range s.all() {
		one.kill("server stops", false)
	}
	if s.sessionCount() > 0 {
		s.up.Nodes.Abandon() // calls still in flight would delay the stop
	}
	s.awaitSessions(time.Now().Add(lastCalls))
}

func (s *Server) logDrained(waited time.Duration) {
	waited = waited.Round(time.Millisecond)
	if n := s.count((*session).isHolder); n > 0 {
		s.log.Warn("closing clients that still hold locks: the locks expire unless the clients attach to "+
			"another leash", "holders", n, "waited", waited)
		return
	}
	s.log.Info("all holders have gone", "clients", s.sessionCount(), "waited", waited)
}

// awaitSessions waits until all sessions have ended, at most until the deadline.
func (s *Server) awaitSessions(deadline time.Time) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		s.mu.Lock()
		left, changed := len(s.sessions), s.changed
		s.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		}
	}
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// LeaveIfDraining implements blocking.Session.
func (s *session) LeaveIfDraining() bool {
	if !s.server.isDraining() || s.isHolder() {
		return false
	}
	s.leave()
	return true
}

// leave makes the session's loop stop reading. Calls in flight get their replies, and then the
// connection closes. It ends a command that blocks in Redis.
func (s *session) leave() {
	s.end.Leave()
	if wait := s.blocked.Load(); wait != nil {
		if !wait.HangUp() {
			s.kill("server stops", false)
		}
		return
	}
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
}

const (
	msgMaintenancePushes = "ERR CLIENT MAINT_NOTIFICATIONS needs RESP3: send HELLO 3 first"
	msgEndpointType      = "ERR Invalid moving-endpoint-type"
)

// endpointTypes are what a client may ask to be told about the place to move to. Leash always says
// that it is the address that the client has connected to.
var endpointTypes = []string{"NONE", "INTERNAL-IP", "INTERNAL-FQDN", "EXTERNAL-IP", "EXTERNAL-FQDN"}

// maintNotifications answers CLIENT MAINT_NOTIFICATIONS ON [moving-endpoint-type TYPE] | OFF, by
// which clients of Redis Cloud ask to be told before a connection ends. go-redis, redis-py,
// node-redis, Jedis and Lettuce send it by themselves.
func maintNotifications(s *session, c *command.Command, cmd resp.Command) bool {
	if !s.server.cfg.MaintNotifications {
		return s.router.Refuse(c, cmd)
	}
	args := cmd.Args[2:]
	switch on := len(args) > 0 && resp.IsWord(args[0], "ON"); {
	case !s.router.Authenticated():
		return s.router.Fail(command.NoAuth)
	case len(args) == 1 && resp.IsWord(args[0], "OFF"):
		s.move.Store(false)
		return s.router.OK()
	case len(args) == 0:
		return s.router.WrongArity(c)
	case !on || len(args) == 2 || len(args) > 3 || len(args) == 3 && !resp.IsWord(args[1], "MOVING-ENDPOINT-TYPE"):
		return s.router.Fail(command.SyntaxError)
	case len(args) == 3 && !slices.ContainsFunc(endpointTypes, func(t string) bool { return resp.IsWord(args[2], t) }):
		return s.router.Fail(msgEndpointType)
	case !s.router.Lane.RESP3:
		return s.router.Fail(msgMaintenancePushes)
	}
	s.move.Store(true)
	return s.router.OK()
}

// AnnounceStop tells clients that asked for it (CLIENT MAINT_NOTIFICATIONS ON) that this Leash ends
// their connections after that time, in whole seconds. They connect again before, to the same
// address. From then on they are granted no lock. A client that holds a lock or waits for one is
// not told: its lock would end with its connection. Safe for concurrent use; waits for no client.
func (s *Server) AnnounceStop(within time.Duration) {
	seconds := int64(within / time.Second)
	if seconds == 0 {
		return
	}
	frame := resp.AppendInt([]byte(">4\r\n$6\r\nMOVING\r\n"), time.Now().Unix())
	frame = append(resp.AppendInt(frame, seconds), resp.Null...)
	for _, one := range s.all() {
		if one.move.Load() && one.locks.RefuseGrants() {
			one.subscribing().Notify(frame)
		}
	}
}
