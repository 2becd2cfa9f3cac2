package links

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"leash/proxy/dial"
)

// ErrNoLink means that a script has no connection that may bring a reply.
var ErrNoLink = errors.New("upstream: no connection for scripts")

// Script sends a lock script to the node, as Leash's own user, on a link that many scripts share.
// It waits for a connection and for the reply until the given time, and appends the reply to dst.
// It does not keep the command. With asking it sends ASKING before it. It follows no redirect. It
// fails at once when the node cannot be reached, or when the scripts in flight have got no reply
// for scriptSilence, because later ones would wait too.
//
// If sent is false, Redis has not received the command and will not. If writeBy is not nil, the
// command is not written from that time on.
func (n *Node) Script(until time.Time, writeBy *time.Time, db int, asking bool, command,
	dst []byte) (reply []byte, sent bool, err error) {
	l := n.scriptLink(dial.Lane{DB: db, Scripts: true})
	if l == nil {
		return dst, false, ErrNoLink
	}
	return l.script(until, writeBy, asking, 1, command, dst)
}

// Scripts is Script for count commands at once. commands has them one after the other, and replies
// has their replies. They use a link of their own, so that single scripts do not wait for them. On
// that link, a long wait for a reply is normal.
func (n *Node) Scripts(until time.Time, db, count int, commands, dst []byte) (replies []byte, sent bool, err error) {
	l := n.scriptLink(dial.Lane{DB: db, Scripts: true, Bulk: true})
	if l == nil {
		return dst, false, ErrNoLink
	}
	return l.script(until, nil, false, count, commands, dst)
}

// Alone is Scripts on a connection that no other caller has meanwhile. So the commands may block
// it, as WAIT does.
func (n *Node) Alone(until time.Time, db, count int, commands, dst []byte) (replies []byte, sent bool, err error) {
	l := n.Pin(n.scriptLane(dial.Lane{DB: db, Scripts: true}), nil)
	replies, sent, err = l.script(until, nil, false, count, commands, dst)
	l.Unpin(err == nil)
	return replies, sent, err
}

// scriptLane is the lane for Leash's own user.
func (n *Node) scriptLane(lane dial.Lane) dial.Lane {
	return lane.As(n.nodes.Dialer.ServiceLane().User)
}

// scriptLink is the link of a lane for scripts. It is nil when it brings no replies now.
func (n *Node) scriptLink(lane dial.Lane) *Link {
	if n.Unresponsive() {
		return nil
	}
	l := n.Link(n.scriptLane(lane))
	if l.silent() {
		l.breakIfDead()
		return nil
	}
	return l
}

func (l *Link) script(until time.Time, writeBy *time.Time, asking bool, count int, commands,
	dst []byte) (replies []byte, sent bool, err error) {
	c := newScriptCall(l, count, commands)
	c.writeBy, c.Asking = writeBy, asking
	patient := int64(0)
	if time.Until(until) > longestAttempt {
		patient = 1
	}
	l.scripts.patient.Add(patient)
	l.scripts.begun()
	l.Submit(&c.Request)
	c.timer.Reset(time.Until(until))
	select {
	case <-c.ended:
		l.scripts.patient.Add(-patient)
	case <-c.timer.C: // the link still uses c
		l.scripts.patient.Add(-patient)
		l.breakIfDead()
		c.state.CompareAndSwap(waiting, abandoned)
		return dst, c.state.Load() == taken, os.ErrDeadlineExceeded
	}
	dst, sent, err = append(dst, c.reply...), c.written, c.err
	c.free()
	return dst, sent, err
}

// DropScripts ends the connections for scripts in a database. Call it after a reply that no script
// can give.
func (n *Node) DropScripts(db int) {
	n.eachLink(func(l *Link) {
		if n.scriptLane(l.lane) == l.lane && l.lane.Scripts && l.lane.DB == db {
			l.breakConn(errScriptReply)
		}
	})
}

// errScriptReply means that a script's reply had the wrong form.
var errScriptReply = errors.New("upstream: a reply that no script gives")

// errScriptSilence means that scripts got no reply in time. The connection may be dead, because a
// firewall has forgotten it.
var errScriptSilence = errors.New("upstream: no reply to lock scripts")

const (
	// scriptSilence is how long the scripts on a link may wait without any reply.
	scriptSilence = 200 * time.Millisecond
	// longestAttempt is the longest time for one attempt of a lock script that can be repeated.
	longestAttempt = 2 * time.Second
)

// deadSilence is the silence after which a connection is given up. It is as long as an attempt of a
// lock script, so that the next attempt has a new connection.
func (n *Node) deadSilence() time.Duration {
	return min(longestAttempt, n.nodes.Dialer.Timeout()/2)
}

// scripts is the state of the scripts on a link. Safe for concurrent use.
type scripts struct {
	number  atomic.Int64 // scripts in flight
	patient atomic.Int64 // scripts whose callers wait longer than for one attempt
	// when the last one ended, or the first of them began; in nanoseconds of Now
	heard atomic.Int64
}

func (s *scripts) begun() {
	if s.number.Add(1) == 1 {
		s.heard.Store(int64(Now()))
	}
}

func (s *scripts) ended() {
	s.heard.Store(int64(Now()))
	s.number.Add(-1)
}

// silentFor is how long scripts have waited on the link without any reply. The result may be wrong
// while a script begins. That does no harm.
func (l *Link) silentFor() time.Duration {
	if l.scripts.number.Load() == 0 {
		return 0
	}
	return Now() - time.Duration(l.scripts.heard.Load())
}

// breakIfDead ends the connection if it has brought no reply for deadSilence, see errScriptSilence.
// A script that may wait longer cannot be repeated. Without the connection, nobody would know
// whether it ran.
func (l *Link) breakIfDead() {
	limit := l.node.deadSilence()
	if !l.lane.Bulk && l.scripts.patient.Load() > 0 {
		limit = l.node.nodes.Dialer.Timeout()
	}
	if l.silentFor() > limit {
		l.breakConn(errScriptSilence)
	}
}

// silent reports whether the scripts on a link have waited too long, more if the node is far away.
// On a bulk link, a long wait is normal.
func (l *Link) silent() bool {
	return !l.lane.Bulk && l.silentFor() > max(scriptSilence, 4*time.Duration(l.node.roundTrip.Load()))
}

type scriptCall struct {
	Request
	pool    *callPool
	link    *Link
	writeBy *time.Time // it must not be written from then on; nil: no limit
	state   atomic.Int32
	ended   chan struct{} // size 1: the fields below are complete
	timer   *time.Timer   // runs only while a goroutine waits

	reply   []byte
	written bool
	err     error
}

// callPool keeps calls that have ended, with their buffers, for reuse.
type callPool struct {
	calls sync.Pool
	kept  int // largest buffer that is kept, in bytes
}

// Calls on bulk links have a pool of their own. In a common pool, all calls would get large buffers
// in time.
var (
	singleCalls = &callPool{kept: 32 << 10}
	bulkCalls   = &callPool{kept: 1 << 20}
)

func (p *callPool) get() *scriptCall {
	if c, ok := p.calls.Get().(*scriptCall); ok {
		return c
	}
	c := &scriptCall{pool: p, ended: make(chan struct{}, 1), timer: time.NewTimer(0)}
	c.timer.Stop()
	c.Sink, c.Permit = c, c
	return c
}

func (p *callPool) put(c *scriptCall) {
	if max(cap(c.Command), cap(c.reply)) <= p.kept {
		p.calls.Put(c)
	}
}

// newScriptCall returns a call with a copy of n commands.
func newScriptCall(l *Link, n int, commands []byte) *scriptCall {
	pool := singleCalls
	if l.lane.Bulk {
		pool = bulkCalls
	}
	c := pool.get()
	c.link, c.Replies = l, n
	c.Command = append(c.Command[:0], commands...)
	return c
}

// free gives c back to its pool. c must have ended.
//
// The writer does not copy a large request, and its write may not have returned yet. The buffer may
// still be used again. If there was a reply, Redis has received all bytes of the request. If the
// connection was lost, the writer has ended.
func (c *scriptCall) free() {
	c.timer.Stop()
	c.state.Store(waiting)
	c.link, c.writeBy, c.reply, c.written, c.err, c.Asking = nil, nil, c.reply[:0], false, nil, false
	c.pool.put(c)
}

// States of a scriptCall.
const (
	waiting   = iota
	taken     // Redis may have it
	abandoned // its caller has given up
)

// end ends the call. After it, the call belongs to the goroutine that waits for it.
func (c *scriptCall) end() {
	c.link.scripts.ended()
	c.ended <- struct{}{}
}

// Reply implements Sink.
func (c *scriptCall) Reply(part []byte, done bool) Flusher {
	c.reply = append(c.reply, part...)
	if done {
		c.written = true
		c.end()
	}
	return nil
}

// Lost implements Sink.
func (c *scriptCall) Lost(written bool, cause error) {
	c.written, c.err = written, cause
	c.end()
}

// Take implements Permit.
func (c *scriptCall) Take() bool {
	return c.state.CompareAndSwap(waiting, taken) || c.state.Load() == taken
}

// Until implements Permit.
func (c *scriptCall) Until() *time.Time { return c.writeBy }

// Overdue implements Permit. The link drops the call next.
func (c *scriptCall) Overdue() { c.state.Store(abandoned) }
