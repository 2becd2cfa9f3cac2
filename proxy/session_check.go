package proxy

import (
	"time"

	"leash/internal/guard"
	"leash/internal/limits"
	"leash/proxy/ending"
	"leash/proxy/links"
)

const (
	sessionCheckInterval = time.Second
	// stallTimeout is how long a socket may accept no bytes, if its client has too much output or
	// if the session has ended otherwise.
	stallTimeout = 10 * time.Second
	// totalOutput limits the unread output of all clients together, as a multiple of
	// Config.MaxClientOutput.
	totalOutput = 4

	// reasons for the end of a session
	loginTimeout = "login timeout"
	idleTimeout  = "idle timeout"
)

// repeat starts a goroutine that calls do after each interval, until the server has stopped. It
// returns false if it has stopped already.
func (s *Server) repeat(what string, interval time.Duration, do func(now time.Time)) bool {
	return s.start(what, func() {
		guard.Repeat(s.ctx, s.log, what, func() { links.Every(s.ctx, interval, do) })
	})
}

// checkSessions looks for clients that do not read their replies, and for holders whose host has
// vanished.
func (s *Server) checkSessions(now time.Time) {
	s.clock.Store(int64(now.Sub(s.started).Seconds()))
	var total int64
	var largest *session
	most, limit := 0, s.Settings().MaxClientOutput
	for _, one := range s.all() {
		size, stalled, over := one.backlog(now)
		if stalled >= stallTimeout && (over || int64(size) > limit || one.stallsMemory(size)) {
			s.stats.outputLimit.Add(1)
			s.log.Warn("client does not read its replies, closing it", "session", one.id, "client",
				one.conn.RemoteAddr(), "bytes", size)
			one.kill("output limit", false)
			continue
		}
		if reason := one.overstays(now); reason != "" {
			one.kill(reason, false)
			continue
		}
		if one.subscriber.Load().IsSlow(now) {
			subscriberSession{one}.EndSlow()
			continue
		}
		one.tracking.CheckTopology()
		if total += int64(size); size > most && !one.activity.noEvict.Load() {
			largest, most = one, size
		}
		if one.conn.PeerSilent(now) {
			s.log.Warn("client with locks does not answer, closing it", "session", one.id, "client",
				one.conn.RemoteAddr())
			one.kill(ending.PeerTimeout, false)
		}
		one.conn.UpdateKeepAlive()
	}
	s.limitOutputOfUsers()
	if total > totalOutput*limit && largest != nil {
		s.stats.outputLimit.Add(1)
		s.log.Warn("too much unread output in total, closing the client with the most", "session", largest.id,
			"bytes", most, "total", total)
		largest.kill("output budget", false)
	}
}

// limitOutputOfUsers closes clients of users for whom Leash keeps more bytes than one user may
// have.
func (s *Server) limitOutputOfUsers() {
	most := s.users.Most(limits.Output)
	if most == 0 {
		return
	}
	byUser, bytes := make(map[string][]*session), make(map[string]int64)
	for _, one := range s.all() {
		user := one.user()
		byUser[user] = append(byUser[user], one)
		bytes[user] += one.buffered()
	}
	for user, n := range bytes {
		if n <= most {
			continue
		}
		clients, freed := closeLargest(byUser[user], n-most, outputLimit)
		if clients > 0 {
			s.users.NoteRefused(limits.Output, int64(clients))
			s.log.Warn("a user has too much unread output, closed the clients with the most", "user", user,
				"clients", clients, "bytes", freed, "total", n)
		}
	}
}

// backlog returns how many bytes of output wait and for how long the socket has taken none. over
// means that the session has ended and only waits for the socket.
func (s *session) backlog(now time.Time) (size int, stalled time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := s.out.StalledSinceLocked(); !since.IsZero() {
		stalled = now.Sub(since)
	}
	_, size = s.calls.SizesLocked()
	return size, stalled, s.end.IsOverLocked()
}

// overstays returns the reason for which a client must go that has not authenticated in time, or
// has been idle for too long. It is empty if it may stay.
func (s *session) overstays(now time.Time) string {
	cfg := &s.server.cfg
	s.mu.Lock()
	nameless := s.router.Lane.User == ""
	s.mu.Unlock()
	if since := s.activity.strangerSince.Load(); cfg.LoginTime > 0 && since > 0 &&
		now.Sub(time.Unix(0, since)) > cfg.LoginTime && nameless {
		return loginTimeout
	}
	if cfg.IdleTime > 0 && cfg.IdleTime < min(s.idle(), now.Sub(s.activity.since)) && s.mayBeIdle() {
		return idleTimeout
	}
	return ""
}

// mayBeIdle reports whether the client waits for nothing. As in Redis, clients that block and
// subscribers are not idle. Holders of locks are not, either.
func (s *session) mayBeIdle() bool {
	if s.isBlocked() || s.monitoring.Load() != nil || s.isHolder() ||
		s.subscriber.Load().Len() > 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	requests, output := s.calls.SizesLocked()
	return requests+output == 0
}

// user is the user of the session. Safe for concurrent use. The caller does not hold s.mu.
func (s *session) user() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.router.Lane.ACLUser()
}
