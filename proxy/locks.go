package proxy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"leash/internal/limits"
	"leash/lockcmd"
	"leash/proxy/client"
	"leash/proxy/command"
	"leash/proxy/commandinfo"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/rights"
)

// lock runs a lock command. It is a barrier in both directions (rule R15). Every earlier call gets
// its reply first, and nothing later is sent before the lock command has its answer. c is nil for
// an unknown command.
func (s *session) lock(c *command.Command, cmd resp.Command) bool {
	if !s.router.Authenticated() {
		return s.fail(command.NoAuth)
	}
	if !s.router.Barrier() {
		return false
	}
	s.out.Flush()
	if carrier := s.carrier(); carrier != nil {
		carrier.CheckOverdue() // calls do this themselves, but lock scripts are not calls
	}
	if s.end.Dropped() {
		return false
	}
	asMap := false
	if c != nil {
		s.activity.command.Store(c)
		switch c.Name {
		case "lock.help":
			if !c.ArityOK(cmd.Args) {
				return s.router.WrongArity(c)
			}
			return s.answer(commandinfo.Help("Leash's own commands. Options may come in any order, times are in "+
				"milliseconds:", command.AllOwn))
		case "lock.list":
			return s.server.scans.Locks(&s.router, s.server.locks, cmd.Args)
		}
		if refusal := s.lockRefusal(c.Own, cmd.Args); refusal != "" {
			return s.fail(refusal)
		}
		asMap = c.Own.AsMap
	}
	use := s.useLocks()
	carrier := use.carrier.Load()
	carrier.Select(s.router.Lane.DB)
	began := links.Now()
	reply, gone := s.doCounted(c, use, carrier, cmd.Args)
	if c != nil && c.Name != "lock.awaitloss" { // a loss is not awaited because anything is slow
		s.logSlowLock(carrier, cmd.Args, began)
	}
	s.scratch = reply
	if cap(s.scratch) > keptBatch {
		s.scratch = nil
	}
	if gone != nil {
		s.end.By(gone)
		return false
	}
	if s.router.Lane.RESP3 {
		reply = lockReplyRESP3(reply, asMap)
	}
	if told := s.tracking.Load().Await(); !s.answer(reply) || !told {
		return false
	}
	carrier.Answered()
	return !s.leaveIfDraining()
}

// doCounted is doWatched within the limits of the user. c is nil for an unknown command.
func (s *session) doCounted(c *command.Command, use *lockUse, carrier *lockcmd.Carrier, args [][]byte) (reply []byte,
	gone error) {
	if s.limits == nil || c == nil {
		return s.doWatched(use, carrier, args)
	}
	done, refusal := s.takeForLock(c.Own, args)
	if refusal != "" {
		return resp.AppendError(s.scratch[:0], refusal), nil
	}
	defer done()
	return s.doWatched(use, carrier, args)
}

// countHolds tells the user how many holds the session has.
func (s *session) countHolds() {
	if s.limits.Limits(limits.Holds) {
		held := 0
		if c := s.carrier(); c != nil {
			held = c.Holds()
		}
		s.limits.Recount(limits.Holds, held)
	}
}

// holders are the commands that can give their connection a hold.
var holders = map[string]bool{"lock.acquire": true, "lock.macquire": true, "lock.attach": true, "sem.acquire": true}

// takeForLock checks the user's limits for a lock command. done must be called after it. If refusal
// is not empty, the command must not run.
func (s *session) takeForLock(o *command.Own, args [][]byte) (done func(), refusal string) {
	s.countHolds()
	if holders[o.Name] {
		refusal = s.limits.Room(limits.Holds, len(o.KeysOf(args)))
	}
	if refusal != "" || !o.Blocks || !asksToWait(args) {
		return s.countHolds, refusal
	}
	waited, refusal := s.limits.Take(limits.Waiters)
	return func() {
		waited()
		s.countHolds()
	}, refusal
}

// asksToWait reports whether a lock command has the option BLOCK. Without it, none waits.
func asksToWait(args [][]byte) bool {
	return slices.ContainsFunc(args[1:], func(arg []byte) bool { return strings.EqualFold(string(arg), "BLOCK") })
}

// doWatched runs a lock command and watches the client while the command waits. If the connection
// has ended, gone says why. A watcher that was not started is kept for the next command, with its
// context. To make both took 5 % of the cost of a lock command.
func (s *session) doWatched(use *lockUse, carrier *lockcmd.Carrier, args [][]byte) (reply []byte, gone error) {
	w := use.next
	if w == nil {
		w = &lockWatch{Watcher: client.Watcher{Conn: s.conn, Owner: (*owner)(s)}}
		w.ctx, w.Gone = context.WithCancel(s.ctx)
		use.next = w
	}
	use.watcher.Store(&w.Watcher)
	carrier.RefuseGrants(s.move.told.Load()) // after the watcher is there, for leavesWithoutLocks
	reply = carrier.Do(w.ctx, s.scratch[:0], args)
	use.watcher.Store(nil)
	if w.Started() {
		gone = w.Stop()
		w.Gone()
		use.next = nil
	}
	return reply, gone
}

// lockUse is what a session has from its first lock command on.
type lockUse struct {
	carrier atomic.Pointer[lockcmd.Carrier] // nil after RESET, until the next lock command
	watcher atomic.Pointer[client.Watcher]  // of the running lock command
	next    *lockWatch                      // for the next lock command; used by the loop only
	silence atomic.Int64                    // see silence.go
}

// useLocks returns the session's lockUse, which has a carrier. Only the loop calls it.
func (s *session) useLocks() *lockUse {
	use := s.locks.Load()
	if use == nil {
		use = new(lockUse)
		s.locks.Store(use)
	}
	if use.carrier.Load() == nil {
		use.carrier.Store(s.server.locks.NewCarrier(s.id, s.identity(), (*host)(s), (*host)(s)))
	}
	return use
}

// carrier returns what the session's locks depend on, or nil if it has used none.
func (s *session) carrier() *lockcmd.Carrier {
	if use := s.locks.Load(); use != nil {
		return use.carrier.Load()
	}
	return nil
}

// awaitsLock reports whether a lock command of the session runs.
func (s *session) awaitsLock() bool {
	use := s.locks.Load()
	return use != nil && use.watcher.Load() != nil
}

// lockWatch is the watcher of a lock command. Its context ends when the client leaves.
type lockWatch struct {
	client.Watcher
	ctx context.Context
}

// lockRefusal returns the error for a user who may not use the keys as a lock does (rule R8). Redis
// cannot check that, because Leash's own user runs the lock scripts. It is empty when the user has
// the rights.
func (s *session) lockRefusal(o *command.Own, args [][]byte) string {
	if len(o.Use.Right) == 0 {
		return ""
	}
	keys := o.KeysOf(args)
	if len(keys) == 0 && o.Keys != command.NoKey {
		return "" // the arguments are wrong
	}
	if err := s.server.rights.Permit(s.ctx, s.router.Lane, keys, o.Use.Right[0], o.Use.Right[1:]...); err != nil {
		return s.lockDenial(o, err)
	}
	// Leash's own user sends the lock scripts, so Leash must look out for a deletion of this user.
	for _, key := range keys {
		s.server.rights.Watch(s.router.Lane, key)
	}
	return ""
}

// lockDenial returns the error for a right that is missing or cannot be checked.
func (s *session) lockDenial(o *command.Own, err error) string {
	var denied *rights.Denied
	switch {
	case errors.As(err, &denied):
		return o.Denial(denied.Key)
	case errors.Is(err, dial.ErrRefused):
		// as Redis does with the connections of a deleted user
		s.server.refuseLane(s.router.Lane)
		return "NOPERM this user no longer exists"
	}
	s.server.log.Warn("cannot check the rights of a user: no lock for it", "user", s.router.Lane.User, "err", err)
	var refusal redis.Error
	if !errors.Is(err, rights.ErrNoCheck) && !errors.As(err, &refusal) {
		return merge.NotSent
	}
	return "NOPERM Leash cannot check the rights of this user: Leash's own user needs ACL DRYRUN, or this user EVAL"
}

// lockReplyRESP3 turns a RESP2 reply of lockcmd into RESP3, with nulls and maps.
func lockReplyRESP3(reply []byte, isMap bool) []byte {
	if string(reply) == resp.NilBulk || string(reply) == resp.NilArray {
		return []byte(resp.Null)
	}
	rest, n, ok := resp.CutHeader(reply, "*")
	if !ok {
		return reply
	}
	b := resp.AppendArray(nil, n)
	if isMap {
		b = resp.AppendMap(nil, n/2)
	}
	for len(rest) > 0 {
		var scan resp.Scanner
		used, _, err := scan.Scan(rest)
		if err != nil {
			return reply
		}
		if element := rest[:used]; string(element) == resp.NilBulk {
			b = append(b, resp.Null...)
		} else {
			b = append(b, element...)
		}
		rest = rest[used:]
	}
	return b
}

// host implements lockcmd.Host and lockcmd.Silence for a session.
type host session

var (
	_ lockcmd.Host    = (*host)(nil)
	_ lockcmd.Silence = (*host)(nil)
)

// End implements lockcmd.Host. When it returns, the session is cut off from its client and from
// Redis. lockcmd has logged and counted a loss.
func (h *host) End(_ []byte, reason string) {
	cause := "lock lost: " + reason
	if reason == lockcmd.ReasonMoved {
		cause = "lock moved to another connection"
	}
	(*session)(h).kill(cause, true)
}

// Watch implements lockcmd.Host.
func (h *host) Watch(a lockcmd.Attention) {
	if a != lockcmd.Waiting {
		h.conn.Guard(a == lockcmd.Guarded) // the session check restores keepalives later
		return
	}
	if use := h.locks.Load(); use != nil {
		if w := use.watcher.Load(); w != nil {
			w.Start()
		}
	}
}

// Push implements lockcmd.Host. It closes the connection of a client that leaves too much unread,
// as for a subscriber.
func (h *host) Push(frame []byte) bool {
	s := (*session)(h)
	if len(frame) == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.router.Lane.RESP3
	}
	return s.subscribing().Notify(frame)
}

// identity is the client as its locks know it. Only the loop's goroutine may call it.
func (s *session) identity() lockcmd.Client {
	return lockcmd.Client{Name: s.clientName(), User: s.user()}
}

// clientName is the client as logs and LOCK.INFO show it.
func (s *session) clientName() string {
	addr := s.conn.RemoteAddr()
	text := addr.String()
	if addr.Network() == "unix" {
		text = "unix:" + s.conn.LocalAddr().String()
	}
	if name := (*owner)(s).Labels().Name; name != "" {
		text += " " + name
	}
	return text
}
