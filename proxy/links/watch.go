package links

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/resp"
)

// Leash sends a PING every second, and when Answers wants one. A node is unresponsive when it sends
// nothing for suspectAfter, and lost after dial.Config.UpstreamTimeout.
const (
	pingInterval = time.Second
	suspectAfter = 3 * time.Second
)

var errSilent = errors.New("upstream: the node does not answer")

// watch checks whether the node is alive, until ctx is done.
func (n *Node) watch() {
	failing := time.Time{}
	defer n.endForgotten()
	for n.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(n.ctx, suspectAfter)
		conn, err := n.nodes.Dialer.Open(ctx, n.Addr)
		cancel()
		if err == nil {
			failing = time.Time{}
			for conn != nil {
				conn, err = n.listen(n.newPinger(conn))
			}
			n.usable.Store(false)
			n.nodes.answers.came()
		}
		n.notePing(nil)
		if n.ctx.Err() != nil {
			break
		}
		if failing.IsZero() {
			failing = time.Now()
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

// pinger is a connection for PINGs. It reads until end is called.
type pinger struct {
	conn  net.Conn
	heard atomic.Int64  // when the last answer came, in nanoseconds of Now; 0 for none
	ended chan struct{} // closed when reading has ended
	err   error         // set before ended is closed
	stop  func() bool
}

func (n *Node) newPinger(conn net.Conn) *pinger {
	p := &pinger{conn: conn, ended: make(chan struct{})}
	p.stop = context.AfterFunc(n.ctx, guard.Func(n.nodes.log, "end of a node", func() { conn.Close() }))
	go func() {
		defer close(p.ended)
		p.err = guard.Call(n.nodes.log, "liveness reader", func() error {
			return readAll(conn, func(reply []byte) {
				p.heard.Store(int64(Now()))
				n.answered(reply)
			})
		})
	}()
	return p
}

func (p *pinger) end() {
	p.stop()
	p.conn.Close()
	<-p.ended
}

// listen sends PINGs with p until its connection breaks or is silent for too long. Any byte counts
// as an answer, also -NOAUTH, -LOADING and -BUSY. If the node answers on a new connection only,
// listen returns that connection.
func (n *Node) listen(p *pinger) (fresh net.Conn, err error) {
	start := Now()
	n.asked.Store(0)
	defer func() {
		if fresh == nil {
			p.end()
		}
	}()
	var opened chan net.Conn // nil: no new connection is being opened
	defer func() {
		if opened != nil {
			closeConn(<-opened)
		}
	}()
	opening, stopOpening := context.WithCancel(n.ctx)
	defer stopOpening()

	timeout := n.nodes.Dialer.Timeout() // a call waits at most so long
	interval := min(pingInterval, timeout/3)
	next, due := time.NewTimer(interval), Now()+interval
	defer next.Stop()
	for {
		p.conn.SetWriteDeadline(time.Now().Add(pingInterval))
		n.asked.CompareAndSwap(0, int64(Now()))
		_, _ = p.conn.Write(dial.PingRequest) // if the connection is broken, the reader ends
		var other net.Conn
		select {
		case <-p.ended:
			return nil, p.err
		case <-next.C:
		case <-n.wanted:
		case other = <-opened:
			opened = nil
		}
		if Now() > due+interval { // this process did not run, so it could not hear an answer
			start = Now()
		}
		n.sweepIdle(time.Now())
		n.sweepSecondLinks(time.Now())
		n.breakForgotten()
		heard := time.Duration(p.heard.Load())
		silence := Now() - max(start, heard)
		left := timeout - silence
		if other != nil && silence > n.deadSilence() {
			n.suspect(p, left)
			return other, nil
		}
		closeConn(other)
		if silence > n.deadSilence() && opened == nil {
			opened = make(chan net.Conn, 1)
			go n.openAnew(opening, opened)
		}
		next.Reset(min(interval, left))
		due = Now() + min(interval, left)
		switch {
		case left <= 0:
			return nil, errSilent
		case silence > suspectAfter:
			n.unresponsive.Store(true)
			n.logLost(errSilent)
			n.breakReaders()
			n.nodes.hooks.Refresh()
		case heard > start: // only after an answer: a hung process accepts connections too
			n.unresponsive.Store(false)
			if n.usable.Load() { // not while it loads its data: it may be silent for seconds again
				n.nodes.logBack(n.Addr)
			}
		}
	}
}

func closeConn(conn net.Conn) {
	if conn != nil {
		conn.Close()
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
	n.nodes.answers.came()
}

func readAll(conn net.Conn, heard func(reply []byte)) error {
	buf := make([]byte, 512)
	for {
		read, err := conn.Read(buf)
		if err != nil {
			return err
		}
		heard(buf[:read])
	}
}

// openAnew opens a connection to the node and sends it to opened after two answers. It sends nil if
// there is none. If Redis was only slow, it answers on its older connections before the second
// answer here.
func (n *Node) openAnew(ctx context.Context, opened chan<- net.Conn) {
	var conn net.Conn
	err := guard.Call(n.nodes.log, "new connection for liveness", func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, suspectAfter)
		defer cancel()
		if conn, err = n.nodes.Dialer.Open(ctx, n.Addr); err != nil {
			return err
		}
		stop := dial.EndWith(ctx, conn)
		for range 2 {
			if _, err = dial.RoundTrip(conn, dial.PingRequest, ""); err != nil {
				return err
			}
		}
		if !stop() { // the deadline of conn may be set
			return context.Cause(ctx)
		}
		return nil
	})
	if err != nil {
		closeConn(conn)
		conn = nil
	}
	opened <- conn
}

// forgotten is an old connection that is silent while the node answers on a new one. A firewall may
// have forgotten it and the links of that time.
type forgotten struct {
	pinger *pinger
	asked  time.Duration // of Now; an answer after that shows that the connection is alive
	until  time.Duration // of Now; then the links end, unless something has come
	links  []quietLink
}

type quietLink struct {
	link  *Link
	conn  net.Conn
	heard int64
}

// suspect notes that p gets no answer while a newer connection does. The links of now have the time
// that is left to show that they are alive.
func (n *Node) suspect(p *pinger, left time.Duration) {
	n.nodes.log.Warn("redis answers on new connections only", "node", n.Addr)
	f := forgotten{pinger: p, asked: Now(), until: Now() + left}
	n.eachLink(func(l *Link) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.conn != nil {
			f.links = append(f.links, quietLink{link: l, conn: l.conn, heard: l.heard.Load()})
		}
	})
	n.forgotten = append(n.forgotten, f)
}

// breakForgotten ends the links that were not heard for as long as the old connection.
func (n *Node) breakForgotten() {
	n.forgotten = slices.DeleteFunc(n.forgotten, func(f forgotten) bool {
		alive := f.pinger.heard.Load() > int64(f.asked)
		if !alive && Now() < f.until {
			return false
		}
		f.pinger.end()
		for _, q := range f.links {
			if !alive && q.link.heard.Load() == q.heard {
				q.link.breakThis(q.conn, errSilent)
			}
		}
		return true
	})
}

func (n *Node) endForgotten() {
	for _, f := range n.forgotten {
		f.pinger.end()
	}
	n.forgotten = nil
}
