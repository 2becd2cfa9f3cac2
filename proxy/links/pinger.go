package links

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
)

// pinger is a connection for PINGs. It reads until end is called.
type pinger struct {
	conn  net.Conn
	heard atomic.Int64  // when the last answer came, in nanoseconds of Now; 0 for none
	ended chan struct{} // closed when reading has ended
	err   error         // set before ended is closed
	stop  func() bool

	// for listen: brings a new connection beside this one, or nil; nil: none is being opened
	others     chan net.Conn
	opening    context.Context
	endOpening context.CancelFunc
}

func (n *Node) newPinger(conn net.Conn) *pinger {
	p := &pinger{conn: conn, ended: make(chan struct{})}
	p.opening, p.endOpening = context.WithCancel(n.ctx)
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
	p.endOpening()
	p.conn.Close()
	<-p.ended
	if p.others != nil {
		closeConn(<-p.others)
	}
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

// openBeside opens a connection to the node, unless that is being done, and sends it to p.others
// after two answers. If Redis was only slow, it answers on its older connections before the second
// answer here.
func (n *Node) openBeside(p *pinger) {
	if p.others != nil {
		return
	}
	opened := make(chan net.Conn, 1)
	p.others = opened
	go func() {
		var conn net.Conn
		err := guard.Call(n.nodes.log, "new connection for liveness", func() (err error) {
			conn, err = n.openAnew(p.opening)
			return err
		})
		if err != nil {
			closeConn(conn)
			conn = nil
			Pause(p.opening, pingInterval) // before the next try
		}
		opened <- conn
	}()
}

func (n *Node) openAnew(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, suspectAfter)
	defer cancel()
	conn, err := n.nodes.Dialer.Open(ctx, n.Addr)
	if err != nil {
		return nil, err
	}
	for range 2 {
		if _, err = dial.RoundTrip(ctx, conn, dial.PingRequest, ""); err != nil {
			return conn, err
		}
	}
	return conn, nil
}

func closeConn(conn net.Conn) {
	if conn != nil {
		conn.Close()
	}
}

// suspect ends a pinger that gets no answer while a newer connection does. A firewall may have
// forgotten it and the links of now. Those that are not heard in the time that is left end with it.
func (n *Node) suspect(p *pinger, left time.Duration) {
	n.nodes.log.Warn("redis answers on new connections only", "node", n.Addr)
	asked := int64(Now())
	type connected struct {
		conn  net.Conn
		heard int64
	}
	links := make(map[*Link]connected)
	n.eachLink(func(l *Link) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.conn != nil {
			links[l] = connected{l.conn, l.heard.Load()}
		}
	})
	if !n.nodes.Go("forgotten connections", func(context.Context) {
		defer p.end()
		Pause(n.ctx, left)
		if p.heard.Load() > asked {
			return
		}
		for l, was := range links {
			if l.heard.Load() == was.heard {
				l.breakThis(was.conn, errSilent)
			}
		}
	}) {
		p.end()
	}
}
