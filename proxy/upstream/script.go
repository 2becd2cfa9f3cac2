package upstream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errNoLink says that a script's link does not stand just now.
var errNoLink = errors.New("upstream: no connection for scripts yet")

// Script sends a lock script to the node of a slot, on a link that many
// scripts share, and waits for its reply or the end of ctx. It follows no
// redirect and does not dial: without a standing connection it fails at once,
// but sees to one; so it does while nothing has come for scriptSilence of those
// that are under way, for whoever is behind them would wait too. Unless sent is set, Redis has
// not had the command and will not get it.
func (u *Upstream) Script(ctx context.Context, db, slot int, command []byte) (reply []byte, sent bool, err error) {
	node := u.Topology().Node(uint16(slot))
	if node == nil || node.Silent() {
		return nil, false, errNoLink
	}
	lane := u.ServiceLane()
	lane.DB, lane.Scripts = db, true
	l := node.Link(lane)
	if !l.standing() {
		l.prepare()
		return nil, false, errNoLink
	}
	c := &scriptCall{link: l, ended: make(chan struct{})}
	c.Request, c.Sink = command, c
	l.scripts.begun()
	l.Submit(&c.Call)
	select {
	case <-c.ended:
		return c.reply, c.written, c.err
	case <-ctx.Done():
		return nil, !c.state.CompareAndSwap(waiting, abandoned), ctx.Err()
	}
}

// scriptSilence is for how long the scripts on a link may wait for a word.
const scriptSilence = 200 * time.Millisecond

// scripts is how it goes with the scripts on a link. Safe for concurrent use.
type scripts struct {
	number atomic.Int64 // under way
	heard  atomic.Int64 // when one ended, or the first of them began: nanoseconds since scriptClock
}

var scriptClock = time.Now()

func (s *scripts) begun() {
	if s.number.Add(1) == 1 {
		s.heard.Store(int64(time.Since(scriptClock)))
	}
}

func (s *scripts) ended() {
	s.heard.Store(int64(time.Since(scriptClock)))
	s.number.Add(-1)
}

// silent reports whether those under way have waited for too long. It may be
// wrong about the first one just as it begins, which costs nothing.
func (s *scripts) silent() bool {
	return s.number.Load() > 0 && time.Since(scriptClock)-time.Duration(s.heard.Load()) > scriptSilence
}

// standing reports whether the link has a connection that scripts may use.
func (l *Link) standing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil && l.broken == nil && !l.scripts.silent()
}

// prepare lets the link dial, if nothing does so far.
func (l *Link) prepare() {
	l.mu.Lock()
	due := l.conn == nil && l.pending.len() == 0
	l.mu.Unlock()
	if due {
		l.Submit(&Call{Request: pingRequest, Sink: &asked{ended: make(chan struct{})}})
	}
}

// scriptCall is one script on its way.
type scriptCall struct {
	Call
	link  *Link
	state atomic.Int32
	ended chan struct{} // closed when the fields below are complete

	reply   []byte
	written bool
	err     error
}

// States of a scriptCall.
const (
	waiting   = iota
	taken     // Redis may have it
	abandoned // nobody wants it any more
)

// end is the last that comes of a call.
func (c *scriptCall) end() {
	close(c.ended)
	c.link.scripts.ended()
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
