package proxy

import (
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"leash/internal/limits"
	"leash/proxy/command"
)

// msgTooMany is Redis's error for a client beyond maxclients.
const msgTooMany = "ERR max number of clients reached"

// Reasons for the end of a session because of a limit.
const (
	userLimit    = "user limit"
	addressLimit = "address limit"
	loginTimeout = "login timeout"
	idleTimeout  = "idle timeout"
)

// refusedPause is how long a client waits for the error after too many commands. Without it, a
// client that sends them again at once would cost as much as if they were run.
const refusedPause = 100 * time.Millisecond

// quota is what a session counts at its user and at its address. Only the session's loop uses it. A
// nil quota has no limits.
type quota struct {
	user     *limits.User // nil before the client has authenticated, or without limits
	address  *limits.User // nil for a unix socket, or without a limit
	moved    bool         // the session may have another user now
	commands int          // that may run before the user's bucket is asked again

	holds, subscriptions int64 // as they are counted at the user
}

func newQuota(s *Server) *quota {
	if s.users == nil && s.addresses == nil {
		return nil
	}
	return &quota{}
}

// of returns the user, or nil without limits.
func (q *quota) of() *limits.User {
	if q == nil {
		return nil
	}
	return q.user
}

// recount tells the user that a count of the session is another one now.
func (q *quota) recount(k limits.Kind, counted *int64, now int) {
	q.user.Add(k, int64(now)-*counted)
	*counted = int64(now)
}

// leave ends the session's counts.
func (q *quota) leave() {
	if q == nil {
		return
	}
	q.user.Add(limits.Holds, -q.holds)
	q.user.Add(limits.Subscriptions, -q.subscriptions)
	q.user.Leave()
	q.address.Leave()
	*q = quota{}
}

// admit counts the session at a user. It returns false if the user has too many clients. Then
// nothing has changed.
func (s *session) admit(user string) bool {
	q := s.quota
	if q == nil || s.server.users == nil {
		return true
	}
	q.moved = false
	if user == "" {
		user = "default"
	}
	if q.user != nil && q.user.Name == user {
		return true
	}
	next, ok := s.server.users.Enter(user)
	if !ok {
		return false
	}
	next.Add(limits.Holds, q.holds)
	next.Add(limits.Subscriptions, q.subscriptions)
	old := quota{user: q.user, holds: q.holds, subscriptions: q.subscriptions}
	old.leave()
	q.user, q.commands = next, 0
	return true
}

// enterLimits counts a new client at its address and its user. It returns false when the session
// ends, because one of them has too many clients.
func (s *session) enterLimits() bool {
	if s.quota == nil {
		return true
	}
	if tcp, ok := s.conn.RemoteAddr().(*net.TCPAddr); ok {
		if s.quota.address, ok = s.server.addresses.Enter(tcp.IP.String()); !ok {
			s.end.Refuse(addressLimit)
			s.fail(msgTooMany)
			return false
		}
	}
	if s.router.Authenticated() && !s.admit(s.router.Lane.User) {
		s.end.Refuse(userLimit)
		s.fail(s.server.limitText(s.router.Lane.User, limits.Clients))
		return false
	}
	return true
}

// limitText is the error for a user who has reached a limit.
func (s *Server) limitText(user string, k limits.Kind) string {
	if user == "" {
		user = "default"
	}
	return "LIMIT user '" + user + "' has reached --limit-user " + k.String() + " on this Leash"
}

// atLimit answers a command whose user has reached a limit.
func (s *session) atLimit(k limits.Kind) bool {
	return s.fail(s.server.limitText(s.router.Lane.User, k))
}

// withinQuota checks the limits that concern every command. If the command is refused, or the
// session ends, it returns handled.
func (s *session) withinQuota(c *command.Command) (handled, ok bool) {
	q := s.quota
	if (q.moved || q.user == nil) && !s.admit(s.router.Lane.User) {
		s.end.Refuse(userLimit)
		s.atLimit(limits.Clients)
		return true, false
	}
	switch {
	case !q.user.Limits(limits.Commands):
		return false, true
	case q.commands > 0:
		q.commands--
		return false, true
	}
	n, wait, ok := q.user.Pace(time.Now())
	if !ok {
		return true, s.delay(refusedPause, nil) && s.forbid(c, s.server.limitText(s.router.Lane.User, limits.Commands))
	}
	q.commands = n - 1
	if wait > 0 && !s.delay(wait, nil) {
		return true, false
	}
	return false, true
}

// countHolds tells the user how many holds the session has.
func (s *session) countHolds() {
	if q := s.quota; q.of().Limits(limits.Holds) {
		held := 0
		if c := s.carrier(); c != nil {
			held = c.Holds()
		}
		q.recount(limits.Holds, &q.holds, held)
	}
}

// holders are the commands that can give their connection a hold.
var holders = map[string]bool{"lock.acquire": true, "lock.macquire": true, "lock.attach": true, "sem.acquire": true}

// takeForLock checks the user's limits for a lock command. done must be called after it. If refusal
// is not empty, the command must not run.
func (s *session) takeForLock(o *command.Own, args [][]byte) (done func(), refusal string) {
	user := s.quota.of()
	if user == nil {
		return func() {}, ""
	}
	s.countHolds()
	if holders[o.Name] && !user.HasRoom(limits.Holds, int64(len(o.KeysOf(args)))) {
		return nil, s.server.limitText(user.Name, limits.Holds)
	}
	if !o.Blocks || !asksToWait(args) {
		return s.countHolds, ""
	}
	if !user.Take(limits.Waiters, 1) {
		return nil, s.server.limitText(user.Name, limits.Waiters)
	}
	return func() {
		user.Add(limits.Waiters, -1)
		s.countHolds()
	}, ""
}

// asksToWait reports whether a lock command has the option BLOCK. Without it, none waits.
func asksToWait(args [][]byte) bool {
	return slices.ContainsFunc(args[1:], func(arg []byte) bool { return strings.EqualFold(string(arg), "BLOCK") })
}

// takeBlocked counts a connection to Redis that the session is about to have to itself. It returns
// false if the user has too many. done must be called when it is given back.
func (s *session) takeBlocked() (done func(), ok bool) {
	user := s.quota.of()
	if user == nil {
		return func() {}, true
	}
	return sync.OnceFunc(func() { user.Add(limits.Blocked, -1) }), user.Take(limits.Blocked, 1)
}

// pace delays a new connection if there are too many a second. Connections that follow wait in the
// queue of the system.
func (s *Server) pace() {
	if s.accepts == nil {
		return
	}
	wait, ok := s.accepts.TakeOne(time.Now())
	if !ok {
		wait = time.Second
	}
	if wait <= 0 {
		return
	}
	s.stats.acceptsDelayed.Add(1)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

// overstays returns the reason for which a client must go that has not authenticated in time, or
// has been idle for too long. It is empty if it may stay. The session check calls it.
func (s *session) overstays(now time.Time) string {
	cfg := &s.server.cfg
	if since := s.activity.strangerSince.Load(); cfg.LoginTime > 0 && since > 0 &&
		now.Sub(time.Unix(0, since)) > cfg.LoginTime && !s.isUser() {
		return loginTimeout
	}
	if cfg.IdleTime > 0 && s.idleFor(now) > cfg.IdleTime && s.mayBeIdle() {
		return idleTimeout
	}
	return ""
}

func (s *session) isUser() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.router.Lane.User != ""
}

func (s *session) idleFor(now time.Time) time.Duration {
	idle := time.Duration(s.server.clock.Load()-s.activity.seen.Load()) * time.Second
	return min(idle, now.Sub(s.activity.since))
}

// mayBeIdle reports whether the client waits for nothing. As in Redis, clients that block and
// subscribers are not idle. Holders of locks are not, either.
func (s *session) mayBeIdle() bool {
	if s.blocked.Load() != nil || s.awaitsLock() || s.monitoring.Load() != nil || s.isHolder() ||
		s.subscriber.Load().Len() > 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	requests, output := s.calls.SizesLocked()
	return requests+output == 0
}
