package proxy

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"leash/proxy/command"
	"leash/proxy/resp"
)

// clientHandlers are the CLIENT commands about Leash's sessions.
func clientHandlers() handlers {
	return handlers{
		"CLIENT|LIST":     (*session).clientList,
		"CLIENT|INFO":     (*session).clientInfo,
		"CLIENT|KILL":     (*session).clientKill,
		"CLIENT|PAUSE":    (*session).clientPause,
		"CLIENT|UNPAUSE":  (*session).clientUnpause,
		"CLIENT|REPLY":    (*session).clientReply,
		"CLIENT|NO-EVICT": (*session).clientNoEvict,
		"CLIENT|NO-TOUCH": (*session).clientNoTouch,
	}
}

// sortedSessions returns all sessions, oldest first.
func (s *Server) sortedSessions() []*session {
	all := s.all()
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	return all
}

func (s *session) clientNoEvict(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) || !s.router.Permitted("CLIENT", "NO-EVICT", "?") {
		return true
	}
	on := resp.IsWord(cmd.Args[2], "ON")
	if !on && !resp.IsWord(cmd.Args[2], "OFF") {
		return s.fail(command.SyntaxError)
	}
	s.activity.noEvict.Store(on)
	return s.ok()
}

// clientNoTouch answers CLIENT NO-TOUCH OFF and refuses ON.
func (s *session) clientNoTouch(c *command.Command, cmd resp.Command) bool {
	if len(cmd.Args) == 3 && s.router.Authenticated() && resp.IsWord(cmd.Args[2], "OFF") {
		return s.ok()
	}
	return s.refuse(c, cmd)
}

// activity is what CLIENT LIST shows of a session.
type activity struct {
	command atomic.Pointer[command.Command] // the last one
	seen    atomic.Int64                    // when the last bytes came, by Server.clock
	queued  atomic.Int64                    // commands since MULTI, and MULTI itself; 0 outside a transaction
	noEvict atomic.Bool                     // CLIENT NO-EVICT
	// Unix nanoseconds from which on the client should have authenticated; 0 if it has, or need not
	strangerSince atomic.Int64
	since         time.Time // when the client came; not changed later
}

// updateDescription stores what describe shows to other goroutines: the session's current command,
// the time of its last bytes, and the length of its transaction. It is not called for every
// command. A call before each wait of the session's loop is enough.
func (s *session) updateDescription() {
	if s.router.Command != nil && s.router.Command != s.activity.command.Load() { // a load costs less than a store
		s.activity.command.Store(s.router.Command)
	}
	if now := s.server.clock.Load(); now != s.activity.seen.Load() {
		s.activity.seen.Store(now)
	}
	if s.tx != nil || s.activity.queued.Load() > 0 {
		s.activity.queued.Store(s.tx.Len())
	}
}
