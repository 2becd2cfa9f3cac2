package links

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"leash/proxy/dial"
)

// ErrNoLink means that a script's link has no connection now.
var ErrNoLink = errors.New("upstream: no connection for scripts yet")

// Script sends a lock script to the node, as Leash's own user, on a link that many scripts share.
// It waits for the reply until the given time and appends it to dst. It does not keep the command.
// It follows no redirect and does not dial. Without a connection it fails at once and starts a
// dial. It also fails at once if the scripts in flight have got no reply for scriptSilence, because
// later ones would wait too.
//
// If sent is false, Redis has not received the command and will not. If writeBy is not nil, the
// command is not written from that time on.
func (n *Node) Script(until time.Time, writeBy *time.Time, db int, command, dst []byte) (reply []byte, sent bool,
	err error) {
	return n.script(until, writeBy, dial.Lane{DB: db, Scripts: true}, 1, command, dst)
}

// Scripts is Script for count commands at once. commands has them one after the other, and replies
// has their replies. They use a link of their own, so that single scripts do not wait for them. On
// that link, a long wait for a reply is normal. Only after a call was given up, later calls fail at
// once.
func (n *Node) Scripts(until time.Time, db, count int, commands, dst []byte) (replies []byte, sent bool, err error) {
	return n.script(until, nil, dial.Lane{DB: db, Scripts: true, Bulk: true}, count, commands, dst)
}

func (n *Node) script(until time.Time, writeBy *time.Time, lane dial.Lane, count int, commands,
	dst []byte) (replies []byte, sent bool, err error) {
	if n.Unresponsive() {
		return dst, false, ErrNoLink
	}
	l := n.Link(lane.As(n.nodes.Dialer.ServiceLane().User))
	if !l.acceptsScripts() {
		l.Open()
		return dst, false, ErrNoLink
	}
	c := newScriptCall(l, count, commands)
	c.writeBy = writeBy
	l.scripts.begun()
	l.Submit(&c.Call)
	c.timer.Reset(time.Until(until))
	select {
	case <-c.ended:
	case <-c.timer.C: // the link still uses c
		l.scripts.overdue.Store(true)
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
	user := n.nodes.Dialer.ServiceLane().User
	n.eachLink(func(l *Link) {
		if l.lane.As(user) == l.lane && l.lane.Scripts && l.lane.DB == db {
			l.breakConn(errScriptReply)
		}
	})
}

// errScriptReply means that a script's reply had the wrong form.
var errScriptReply = errors.New("upstream: a reply that no script gives")

// scriptSilence is how long the scripts on a link may wait without any reply.
const scriptSilence = 200 * time.Millisecond

// scripts is the state of the scripts on a link. Safe for concurrent use.
type scripts struct {
	number atomic.Int64 // scripts in flight
	// when the last one ended, or the first of them began; in nanoseconds of Now
	heard   atomic.Int64
	overdue atomic.Bool // a call was given up and no script has ended since
}

func (s *scripts) begun() {
	if s.number.Add(1) == 1 {
		s.heard.Store(int64(Now()))
	}
}

func (s *scripts) ended() {
	s.heard.Store(int64(Now()))
	s.overdue.Store(false)
	s.number.Add(-1)
}

// silent reports whether the scripts in flight have waited too long. The limit for single scripts
// is scriptSilence. On a bulk link, a long wait counts only after a call was given up. The result
// may be wrong while a script begins. That does no harm.
func (s *scripts) silent(bulk bool) bool {
	switch {
	case s.number.Load() == 0:
		return false
	case bulk:
		return s.overdue.Load()
	}
	return Now()-time.Duration(s.heard.Load()) > scriptSilence
}

// acceptsScripts reports whether the link has a connection that scripts may use.
func (l *Link) acceptsScripts() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil && l.broken == nil && !l.scripts.silent(l.lane.Bulk)
}

type scriptCall struct {
	Call
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
	c.Sink = c
	return c
}

func (p *callPool) put(c *scriptCall) {
	if max(cap(c.Request), cap(c.reply)) <= p.kept {
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
	c.Request = append(c.Request[:0], commands...)
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
	c.link, c.writeBy, c.reply, c.written, c.err = nil, nil, c.reply[:0], false, nil
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

// Dropped implements Sink.
func (c *scriptCall) Dropped() bool {
	c.state.CompareAndSwap(waiting, taken)
	return c.state.Load() == abandoned
}

// Until implements Sink.
func (c *scriptCall) Until() *time.Time { return c.writeBy }

// Overdue implements Sink. The link drops the call next.
func (c *scriptCall) Overdue() { c.state.Store(abandoned) }
