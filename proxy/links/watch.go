package links

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/resp"
)

// Leash sends a PING every second, and when Answer wants one. A node is unresponsive when it
// sends nothing for suspectAfter, and lost after dial.Config.UpstreamTimeout.
const (
	pingInterval = time.Second
	suspectAfter = 3 * time.Second
)

var errSilent = errors.New("upstream: the node does not answer")

// watch checks whether the node is alive, until ctx is done.
func (n *Node) watch() {
	failing := time.Time{}
	for n.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(n.ctx, suspectAfter)
		conn, err := n.nodes.Dialer.OpenFor(ctx, n.Addr, n.deadSilence())
		if err == nil {
			err = n.checkIdentity(ctx)
		}
		cancel()
		if err == nil {
			failing = time.Time{}
			err = n.listen(conn)
			n.usable.Store(false)
		} else if conn != nil {
			conn.Close()
		}
		n.identity.ended.Add(1)
		n.notePing(nil)
		if n.ctx.Err() != nil {
			break
		}
		lost := timedOut(err)
		if lost && Now()-time.Duration(n.heard.Load()) < n.nodes.Dialer.Timeout() {
			n.suspect(err)
			continue // a firewall may have forgotten this connection alone
		}
		if failing.IsZero() {
			failing = time.Now()
			if lost {
				err = errSilent
			}
		}
		if time.Since(failing) > suspectAfter {
			n.unresponsive.Store(true)
		}
		n.logLost(err)
		if errors.Is(err, errSilent) {
			n.unresponsive.Store(true)
			n.eachLink(func(l *Link) { l.breakConn(errSilent) })
		}
		n.nodes.hooks.Refresh()
		Pause(n.ctx, pingInterval/2+rand.N(pingInterval))
	}
}

// timedOut reports whether the network brought nothing in time.
func timedOut(err error) bool {
	failure, ok := errors.AsType[net.Error](err)
	return ok && failure.Timeout()
}

// listen sends PINGs on conn until it breaks or is silent for too long. Any byte counts as an
// answer, also -NOAUTH, -LOADING and -BUSY.
func (n *Node) listen(conn net.Conn) error {
	stop := context.AfterFunc(n.ctx, guard.Func(n.nodes.log, "end of a node", func() { conn.Close() }))
	var broken error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		broken = guard.Call(n.nodes.log, "liveness reader", func() error { return n.readAnswers(conn) })
	}()
	defer func() {
		stop()
		conn.Close()
		<-ended
	}()
	start := Now()
	n.asked.Store(0)
	timeout := n.nodes.Dialer.Timeout() // a request waits at most so long
	interval := min(pingInterval, timeout/3)
	next, due := time.NewTimer(interval), Now()+interval
	defer next.Stop()
	for {
		conn.SetWriteDeadline(time.Now().Add(pingInterval))
		n.asked.CompareAndSwap(0, int64(Now()))
		_, _ = conn.Write(dial.PingRequest) // if the connection is broken, the reader ends
		select {
		case <-ended:
			return broken
		case <-next.C:
		case <-n.wanted:
		}
		if Now() > due+interval { // this process did not run, so it could not hear an answer
			start = Now()
		}
		n.sweepIdle(time.Now())
		n.sweepSecondLinks(time.Now())
		heard := time.Duration(n.heard.Load())
		silence := Now() - max(start, heard)
		left := timeout - silence
		if left <= 0 {
			return errSilent
		}
		n.judge(silence, heard > start)
		next.Reset(min(interval, left))
		due = Now() + min(interval, left)
	}
}

// judge decides whether the node is responsive, after so much silence. heard says whether this
// connection has had an answer: a hung process accepts connections too.
func (n *Node) judge(silence time.Duration, heard bool) {
	switch {
	case silence > suspectAfter:
		n.suspect(errSilent)
	case heard:
		n.unresponsive.Store(false)
		if n.usable.Load() { // not while it loads its data: it may be silent for seconds again
			n.nodes.logBack(n.Addr)
		}
	}
}

// suspect notes that the node is silent for that reason.
func (n *Node) suspect(cause error) {
	n.unresponsive.Store(true)
	n.logLost(cause)
	n.breakReaders()
	n.nodes.hooks.Refresh()
}

// readAnswers reads the answers to PINGs until the connection breaks.
func (n *Node) readAnswers(conn net.Conn) error {
	buf := make([]byte, 512)
	for {
		read, err := conn.Read(buf)
		if err != nil {
			return err
		}
		n.answered(buf[:read])
	}
}

func (n *Node) answered(reply []byte) {
	n.notePing(reply)
	now := int64(Now())
	n.usable.Store(!resp.HasCode(reply, "LOADING"))
	n.heard.Store(now)
	if sent := n.asked.Swap(0); sent != 0 {
		n.measured(time.Duration(now - sent))
	}
}
