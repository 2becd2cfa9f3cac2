// Package blocking is how a session waits and watches its client: for a command that blocks in
// Redis, such as BLPOP, XREAD and WAIT, and until a client that is delayed may go on.
package blocking

import (
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/limits"
	"leash/proxy/client"
	"leash/proxy/command"
	"leash/proxy/ending"
	"leash/proxy/replication"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/slots"
	"leash/proxy/tracking"
)

// Session is what a wait needs of its session. Only the session's loop calls these methods.
type Session interface {
	client.Owner
	// AwaitQueued waits until Redis has answered the commands since MULTI, if there are any. It
	// returns false when the session ends.
	AwaitQueued() bool
	// HasLocks reports whether the client has locks.
	HasLocks() bool
	// ReleasesLocks reports whether the client has locks, and they are released now that it has
	// left.
	ReleasesLocks() bool
	// LeaveIfDraining ends the session if the server stops and the client has no locks. It reports
	// whether it did.
	LeaveIfDraining() bool
}

// Wait is what a session waits for. Pins are the connections on which Redis runs its blocking
// command. There are none when it waits for something else, such as the end of CLIENT PAUSE.
type Wait struct{ Pins []*route.Pin }

// HangUp makes Redis end its command, which takes no element from then on. The client still gets
// what the command has taken before. It returns false if the session waits for something else. Safe
// for concurrent use; does not block.
func (w *Wait) HangUp() bool {
	for _, pin := range w.Pins {
		pin.HangUp()
	}
	return len(w.Pins) > 0
}

// Client is one client that may have to wait. Only its session's loop calls the methods.
type Client struct {
	Session  Session
	Conn     *client.Conn
	End      *ending.Ending
	Router   *route.Router
	Limits   *limits.Client
	Tracking *tracking.Client
	Now      *atomic.Pointer[Wait] // nil while the session does not wait
}

// Run runs a command that may block. It returns false when the session ends.
type Run func(c Client, about *command.Command, cmd resp.Command) bool

// Commands are those that the flags of the command table do not describe well enough, by upper-case
// name. Block runs all others.
func Commands() map[string]Run {
	return map[string]Run{"XREAD": streamRead, "XREADGROUP": streamRead, "WAIT": replicas, "WAITAOF": replicas}
}

func replicas(c Client, about *command.Command, cmd resp.Command) bool {
	if !c.Router.Ready(about, cmd) {
		return true
	}
	reply, ok := replication.Wait(c.Router, cmd, func(pins []*route.Pin, abort, f func()) bool {
		return c.watched(&Wait{pins}, abort, f)
	})
	return ok && c.Tracking.Await() && c.Router.Answer(reply)
}

// Block runs a command that may block on a pinned connection, so that no other session waits behind
// it. It is a barrier in both directions. When the client leaves, the connection is closed, so no
// element is taken for it.
func Block(c Client, about *command.Command, cmd resp.Command) bool {
	i := about.FirstKey(cmd.Args)
	if i == 0 {
		return c.Router.RelayAny(cmd) // Redis reports what is wrong
	}
	return c.blockOn(cmd, slots.Of(cmd.Args[i]))
}

// blockOn sends a command to the owner of slot and waits for its reply or for the client to leave.
func (c Client) blockOn(cmd resp.Command, slot slots.Slot) bool {
	if !c.Router.AdoptTopology() || !c.Router.Barrier() {
		return false
	}
	c.Router.Out.Flush()
	done, refusal := c.Limits.Take(limits.Blocked)
	if refusal != "" {
		return c.Router.Fail(refusal)
	}
	defer done()
	ok := c.Tracking.Behind(func() bool { return c.blockPinned(cmd, slot) })
	if !c.Router.Command.Write {
		c.Tracking.ForgetAll() // Redis records the reads for another connection
	}
	return ok
}

// blockPinned is blockOn while no call is in flight. When Redis closes the connection, the client's
// is closed too. Many libraries repeat a blocking command only then, and give up after an error.
// With locks the client gets an error, because they end with its connection.
func (c Client) blockPinned(cmd resp.Command, slot slots.Slot) bool {
	p := c.Router.Push(cmd, slot)
	if p == nil {
		return false
	}
	own := c.Router.Pin()
	closes := !c.Session.HasLocks()
	p.Via(own).Blocks(closes)
	if n := c.Router.Topology().Node(slot); n != nil {
		c.Router.Wrote(n)
		p.Send(n)
	} else {
		p.Unserved()
	}
	open, lostAt := true, c.Router.Calls.LastLoss()
	ok := c.watched(&Wait{[]*route.Pin{own}}, own.Abort, func() {
		if open = c.Router.Barrier(); !open {
			own.Abort()
		}
	})
	lost := c.Router.Calls.LastLoss() != lostAt
	if !ok && lost {
		c.awaitAbandoned(own, lostAt)
	}
	own.Release()
	if ok && lost && closes {
		c.End.Set(ending.Killed)
		return false
	}
	return ok && open
}

// awaitAbandoned waits until Redis has ended a blocking command whose client is gone. own is the
// pinned connection of that command. When Redis has closed that connection, the command can have no
// later effect. Then the client's locks need not expire (R16). So awaitAbandoned sets the time of
// the last loss back to before, the value from before the command.
func (c Client) awaitAbandoned(own *route.Pin, before time.Time) {
	if !c.End.IsCut() && c.Session.ReleasesLocks() && own.AwaitGone() {
		c.Router.Calls.Lost(before)
	}
}

// watched runs f and watches the client. When the client leaves, it calls abort, which must make f
// return. It returns false when the session ends.
func (c Client) watched(wait *Wait, abort, f func()) bool {
	w := &client.Watcher{Conn: c.Conn, Owner: c.Session, Gone: abort}
	c.Now.Store(wait)
	if c.End.Leaving() { // who called Leave may have read Now before it was set here
		if !wait.HangUp() {
			abort()
		}
		f()
		c.Now.Store(nil)
		return false
	}
	w.Start()
	f()
	c.Now.Store(nil)
	if gone := w.Stop(); gone != nil {
		c.End.By(gone)
		return false
	}
	return !c.End.Leaving() && !c.Session.LeaveIfDraining()
}

// gathered is how many bytes of a client that has to wait the system keeps before Leash reads them.
const gathered = 16 << 10

// Delay waits until d is over or changed is closed, and watches the client. It returns false when
// the session ends.
func (c Client) Delay(d time.Duration, changed <-chan struct{}) bool {
	if !c.Session.AwaitQueued() {
		return false
	}
	c.Router.Out.Flush()
	c.Conn.Gather(gathered)
	defer c.Conn.Gather(1)
	gone := make(chan struct{})
	abort := sync.OnceFunc(func() { close(gone) })
	return c.watched(&Wait{}, abort, func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-changed:
		case <-gone:
		case <-c.Router.Context.Done():
		}
	}) && !c.End.IsCut()
}

// streamRead relays XREAD and XREADGROUP. With BLOCK they get a pinned connection.
func streamRead(c Client, about *command.Command, cmd resp.Command) bool {
	streams, blocks := parseStreamRead(cmd.Args)
	switch {
	case streams <= 0 || streams >= len(cmd.Args):
		return c.Router.RelayAny(cmd) // Redis reports what is wrong
	case blocks:
		return c.blockOn(cmd, slots.Of(cmd.Args[streams]))
	}
	return c.Router.RelayKeys(cmd, slots.Of(cmd.Args[streams]), about.ManyKeys)
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
