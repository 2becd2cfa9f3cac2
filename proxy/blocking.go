package proxy

import (
	"sync"
	"time"

	"leash/internal/limits"
	"leash/lockcmd"
	"leash/proxy/client"
	"leash/proxy/command"
	"leash/proxy/replication"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/upstream"
)

// blockingHandlers are the blocking commands that the flags of the command table do not describe
// well enough.
func blockingHandlers() handlers {
	return handlers{
		"XREAD":      (*session).streamRead,
		"XREADGROUP": (*session).streamRead,
		"WAIT":       awaitReplicas,
		"WAITAOF":    awaitReplicas,
	}
}

// awaitReplicas runs WAIT and WAITAOF.
func awaitReplicas(s *session, c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) {
		return true
	}
	reply, ok := replication.Wait(&s.router, s.server.up, cmd, func(pins []*route.Pin, abort, f func()) bool {
		return s.whileWatched(&blocked{pins}, abort, f)
	})
	return ok && s.tracking.Load().Await() && s.answer(reply)
}

// blocked is the state of a session that waits. pins are the connections on which Redis runs its
// blocking command. There are none when it waits for something else, such as the end of CLIENT
// PAUSE.
type blocked struct{ pins []*route.Pin }

// block runs a command that may block on a pinned connection, so that no other session waits behind
// it. It is a barrier in both directions.
func (s *session) block(c *command.Command, cmd resp.Command) bool {
	i := c.FirstKey(cmd.Args)
	if i == 0 {
		return s.router.RelayAny(cmd) // Redis reports what is wrong
	}
	return s.blockOn(cmd, int(upstream.Slot(cmd.Args[i])))
}

// blockOn sends a command to the owner of slot and waits for its reply or for the client to leave.
// When the client leaves, the connection is closed, so no element is taken for it.
func (s *session) blockOn(cmd resp.Command, slot int) bool {
	if !s.router.AdoptTopology() || !s.router.Barrier() {
		return false
	}
	s.out.Flush()
	done, refusal := s.limits.Take(limits.Blocked)
	if refusal != "" {
		return s.fail(refusal)
	}
	defer done()
	ok := s.tracking.Load().Behind(func() bool { return s.blockPinned(cmd, slot) })
	if !s.router.Command.Write {
		s.tracking.Load().ForgetAll() // Redis records the reads for another connection
	}
	return ok
}

// blockPinned is blockOn while no call is in flight.
func (s *session) blockPinned(cmd resp.Command, slot int) bool {
	p := s.router.Push(cmd, slot)
	if p == nil {
		return false
	}
	own := s.router.Pin()
	p.Via(own).Blocks()
	if n := s.router.Topology().Node(uint16(slot)); n != nil {
		s.router.Wrote(n)
		p.Send(n)
	} else {
		p.Unserved()
	}
	open, lostAt := true, s.calls.LastLoss()
	ok := s.whileWatched(&blocked{[]*route.Pin{own}}, own.Abort, func() {
		if open = s.router.Barrier(); !open {
			own.Abort()
		}
	})
	if !ok && s.calls.LastLoss() != lostAt {
		s.awaitAbandoned(own, lostAt)
	}
	own.Release()
	return ok && open
}

// whileWatched runs f and watches the client. When the client leaves, it calls abort, which must
// make f return. It returns false when the session ends.
func (s *session) whileWatched(b *blocked, abort func(), f func()) bool {
	w := &client.Watcher{Conn: s.conn, Owner: (*owner)(s), Gone: abort}
	s.blocked.Store(b)
	if s.end.Leaving() { // leave may have read s.blocked before it was set here
		abort()
	}
	w.Start()
	f()
	s.blocked.Store(nil)
	if gone := w.Stop(); gone != nil {
		s.end.By(gone)
		return false
	}
	return !s.leaveIfDraining()
}

// streamRead relays XREAD and XREADGROUP. With BLOCK they get a pinned connection.
func (s *session) streamRead(c *command.Command, cmd resp.Command) bool {
	streams, blocks := parseStreamRead(cmd.Args)
	switch {
	case streams <= 0 || streams >= len(cmd.Args):
		return s.router.RelayAny(cmd) // Redis reports what is wrong
	case blocks:
		return s.blockOn(cmd, int(upstream.Slot(cmd.Args[streams])))
	}
	return s.router.RelayKeys(cmd, int(upstream.Slot(cmd.Args[streams])), c.ManyKeys)
}

// parseStreamRead reads the options of XREAD and XREADGROUP one after the other, as Redis does. It
// must skip values, because a group may have the name of an option. It returns the index of the
// first key, or 0 if there is none.
func parseStreamRead(args [][]byte) (streams int, blocks bool) {
	for i := 1; i < len(args); i++ {
		switch {
		case resp.IsWord(args[i], "STREAMS"):
			return i + 1, blocks
		case resp.IsWord(args[i], "BLOCK"):
			blocks = true
			i++
		case resp.IsWord(args[i], "COUNT"):
			i++
		case resp.IsWord(args[i], "GROUP"):
			i += 2
		}
	}
	return 0, blocks
}

// awaitUnpaused waits until no CLIENT PAUSE delays the command. It delays only a command that Redis
// or lockcmd would run, and none that would be refused. It returns false when the session ends
// first. The command must then not run. c is nil for an unknown command.
func (s *session) awaitUnpaused(c *command.Command, cmd resp.Command) bool {
	if c == nil || !s.router.Authenticated() || !c.ArityOK(cmd.Args) {
		return true
	}
	writes := c.MayPropagate() || c.Name == "exec" && s.tx.Propagates()
	for {
		p := s.server.pauses.Delaying(writes)
		if p == nil {
			return true
		}
		if !s.delay(time.Until(p.Until), p.Changed) {
			return false
		}
	}
}

// gathered is how many bytes of a client that has to wait the system keeps before Leash reads them.
const gathered = 16 << 10

// delay waits until d is over or changed is closed, and watches the client. It returns false when
// the session ends.
func (s *session) delay(d time.Duration, changed <-chan struct{}) bool {
	s.updateDescription()
	if !s.tx.AwaitQueued() {
		return false
	}
	s.out.Flush()
	s.conn.Gather(gathered)
	defer s.conn.Gather(1)
	gone := make(chan struct{})
	abort := sync.OnceFunc(func() { close(gone) })
	return s.whileWatched(&blocked{}, abort, func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-changed:
		case <-gone:
		case <-s.ctx.Done():
		}
	}) && !s.end.IsCut()
}

// awaitAbandoned waits until Redis has ended a blocking command whose client is gone. own is the
// pinned connection of that command. When Redis has closed that connection, the command can have no
// later effect. Then the client's locks need not expire (R16). So awaitAbandoned sets the time of
// the last loss back to before, the value from before the command.
func (s *session) awaitAbandoned(own *route.Pin, before time.Time) {
	if !s.isHolder() || s.end.IsCut() || s.endOfLocks() != lockcmd.Release {
		return
	}
	if own.AwaitGone() {
		s.calls.Lost(before)
	}
}
