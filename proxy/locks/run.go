package locks

import (
	"context"
	"slices"
	"strings"
	"time"

	"leash/internal/limits"
	"leash/lockcmd"
	"leash/proxy/client"
	"leash/proxy/command"
	"leash/proxy/commandinfo"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/slowlog"
	"leash/proxy/usage"
)

// keptReply is the largest buffer that is kept for the next reply, in bytes.
const keptReply = 64 << 10

// Run runs a lock command. It is a barrier in both directions (rule R15). Every earlier call gets
// its reply first, and nothing later is sent before the lock command has its answer. c is nil for
// an unknown command. It returns false when the session ends.
func (l *Client) Run(c *command.Command, cmd resp.Command) bool {
	if !l.Router.Authenticated() {
		return l.Router.Fail(command.NoAuth)
	}
	if !l.Router.Barrier() {
		return false
	}
	l.Router.Out.Flush()
	if carrier := l.Carrier(); carrier != nil {
		carrier.CheckOverdue() // calls do this themselves, but lock scripts are not calls
	}
	if l.End.Dropped() {
		return false
	}
	if c == nil {
		return l.execute(&usage.Command{}, cmd.Args)
	}
	switch c.Name {
	case "lock.help":
		if !c.ArityOK(cmd.Args) {
			return l.Router.WrongArity(c)
		}
		return l.Router.Answer(commandinfo.Help("Leash's own commands. Options may come in any order, times are in "+
			"milliseconds:", command.AllOwn))
	case "lock.list":
		return l.Scans.Locks(l.Router, l.Service, cmd.Args)
	}
	if refusal := l.denial(c.Own, cmd.Args); refusal != "" {
		return l.Router.Fail(refusal)
	}
	return l.execute(c.Own, cmd.Args)
}

// execute is Run for a command that lockcmd answers. An unknown command has no name in o.
func (l *Client) execute(o *usage.Command, args [][]byte) bool {
	carrier := l.open()
	carrier.Select(l.Router.Lane.DB)
	began := links.Now()
	reply, gone := l.doWithinLimits(o, carrier, args)
	if o.Name != "lock.awaitloss" { // a loss is not awaited because anything is slow
		l.logSlow(carrier, args, began)
	}
	l.scratch = reply
	if cap(l.scratch) > keptReply {
		l.scratch = nil
	}
	if gone != nil {
		l.End.By(gone)
		return false
	}
	if l.Router.Lane.RESP3 {
		reply = inRESP3(reply, o.AsMap)
	}
	if told := l.Tracking.Await(); !l.Router.Answer(reply) || !told {
		return false
	}
	carrier.Answered()
	return true
}

// holders are the commands that can give their connection a hold.
var holders = map[string]bool{"lock.acquire": true, "lock.macquire": true, "lock.attach": true, "sem.acquire": true}

// NeedsRoom reports whether Leash keeps more for a client after such a lock command, or while it
// waits.
func NeedsRoom(o *usage.Command, args [][]byte) bool { return holders[o.Name] || asksToWait(o, args) }

// asksToWait reports whether a lock command has the option BLOCK. Without it, none waits.
func asksToWait(o *usage.Command, args [][]byte) bool {
	return o.Blocks &&
		slices.ContainsFunc(args[1:], func(arg []byte) bool { return strings.EqualFold(string(arg), "BLOCK") })
}

// doWithinLimits is do within the limits of the user.
func (l *Client) doWithinLimits(o *usage.Command, carrier *lockcmd.Carrier, args [][]byte) (reply []byte, gone error) {
	if l.Limits == nil {
		return l.do(carrier, args)
	}
	l.countHolds()
	refusal := ""
	if holders[o.Name] {
		refusal = l.Limits.Room(limits.Holds, len(o.KeysOf(args)))
	}
	if refusal == "" && asksToWait(o, args) {
		var done func()
		if done, refusal = l.Limits.Take(limits.Waiters); refusal == "" {
			defer done()
		}
	}
	if refusal != "" {
		return resp.AppendError(l.scratch[:0], refusal), nil
	}
	defer l.countHolds()
	return l.do(carrier, args)
}

func (l *Client) countHolds() {
	if l.Limits.Limits(limits.Holds) {
		l.Limits.Recount(limits.Holds, l.Holds())
	}
}

// watch is the watcher of a lock command. Its context ends when the client leaves.
type watch struct {
	client.Watcher
	ctx context.Context
}

// do runs a lock command and watches the client while the command waits. If the connection has
// ended, gone says why. A watcher that was not started is kept for the next command, with its
// context. To make both took 5 % of the cost of a lock command.
func (l *Client) do(carrier *lockcmd.Carrier, args [][]byte) (reply []byte, gone error) {
	w := l.next
	if w == nil {
		w = &watch{Watcher: client.Watcher{Conn: l.Conn, Owner: l.Session}}
		w.ctx, w.Gone = context.WithCancel(l.Router.Context)
		l.next = w
	}
	l.watcher.Store(&w.Watcher)
	carrier.RefuseGrants(l.moves.Load()) // after the watcher is there, for Client.RefuseGrants
	reply = carrier.Do(w.ctx, l.scratch[:0], args)
	l.watcher.Store(nil)
	if w.Started() {
		gone = w.Stop()
		w.Gone()
		l.next = nil
	}
	return reply, gone
}

// logSlow adds a command to the log of slow commands if it was slow. It began at that time.
func (l *Client) logSlow(carrier *lockcmd.Carrier, args [][]byte, began time.Duration) {
	now, arrived := links.Now(), l.Router.Calls.Arrived
	if !l.Slow.IsSlow(now - arrived) {
		return
	}
	by, waited := l.Session.Identity(), carrier.Waited()
	l.Slow.Add(slowlog.Entry{
		At: time.Now(), Client: by.Name, User: by.User, Args: slowlog.Arguments(args),
		Queued: began - arrived, Waited: waited, Redis: max(now-began-waited, 0),
	})
}

// inRESP3 turns a RESP2 reply of lockcmd into RESP3, with nulls and maps.
func inRESP3(reply []byte, isMap bool) []byte {
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
		var element []byte
		if element, rest, ok = resp.Cut(rest); !ok {
			return reply
		}
		if string(element) == resp.NilBulk {
			b = append(b, resp.Null...)
		} else {
			b = append(b, element...)
		}
	}
	return b
}
