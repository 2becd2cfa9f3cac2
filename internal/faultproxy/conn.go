package faultproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// lingerTimeout bounds how long the proxy reads from a client after it has sent it a FIN. If it
// closed the socket with bytes unread, the kernel would send a reset. The reset might overtake
// replies that the client has not read yet.
const lingerTimeout = time.Second

// conn is one client's connection and the one to the target that belongs to it. Each direction has
// a goroutine that reads and one that writes, with a queue between them.
type conn struct {
	proxy    *Proxy
	client   *net.TCPConn
	up       *queue          // to the target
	down     *queue          // to the client
	ctx      context.Context // ends when the connection is to end
	cancel   context.CancelFunc
	done     <-chan struct{} // of ctx
	exempt   atomic.Bool     // a replica's connection: no fault affects it
	halfOpen atomic.Bool     // one side was reset, the other is still open

	// mu guards the fields below. It is taken before the proxy's mutex and before a queue's. It is
	// not held across I/O, except to close sockets.
	mu     sync.Mutex
	server *net.TCPConn // nil until dialed
	ended  bool
	replies
}

func newConn(p *Proxy, client *net.TCPConn) *conn {
	ctx, cancel := context.WithCancel(context.Background())
	return &conn{
		proxy: p, client: client, up: newQueue(), down: newQueue(),
		ctx: ctx, cancel: cancel, done: ctx.Done(),
	}
}

// serve runs the connection until it has ended.
func (c *conn) serve() {
	defer c.proxy.remove(c)
	defer c.abandon()
	if !c.awaitFlow(ToTarget) || !c.awaitFlow(ToClient) || !c.dial() {
		return
	}
	var wg sync.WaitGroup
	wg.Go(c.readRequests)
	wg.Go(c.readReplies)
	wg.Go(c.writeRequests)
	wg.Go(c.writeReplies)
	wg.Wait()
}

func (c *conn) dial() bool {
	ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
	defer cancel()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", c.proxy.target)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		_ = server.Close()
		return false
	}
	c.server = server.(*net.TCPConn)
	return true
}

// cut ends both sides and reports whether they had not been ended before.
func (c *conn) cut(how Ending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.ended = true
	c.cancel()
	if how == RST {
		_ = c.client.SetLinger(0)
		if c.server != nil {
			_ = c.server.SetLinger(0)
		}
		c.closeLocked()
		return true
	}
	_ = c.client.SetWriteDeadline(time.Now())
	_ = c.client.CloseWrite()
	_ = c.client.SetReadDeadline(time.Now().Add(lingerTimeout)) // readRequests goes on until then
	if c.server != nil {
		_ = c.server.Close()
	}
	return true
}

// resetSide resets one side and discards what comes from the other. It reports whether the
// connection had both sides.
func (c *conn) resetSide(side Side) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.server == nil || c.halfOpen.Swap(true) {
		return false
	}
	gone := c.client
	if side == TargetSide {
		gone = c.server
	}
	_ = gone.SetLinger(0)
	_ = gone.Close()
	return true
}

// abandon closes both sides at once, in any state.
func (c *conn) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended = true
		c.cancel()
	}
	c.closeLocked()
}

func (c *conn) closeLocked() {
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
}

// readRequests reads from the client until the connection ends. After a cut, it discards what it
// reads, for lingerTimeout at most. It also discards when the target's side was reset.
func (c *conn) readRequests() {
	r := requests{conn: c}
	buf := make([]byte, 32<<10)
	for {
		n, err := c.client.Read(buf)
		if !c.awaitFlow(ToTarget) {
			if err != nil {
				c.endHalfOpen(err)
				return
			}
			continue
		}
		r.take(buf[:n])
		if err != nil {
			r.flush()
			c.up.push(c.segment(nil, endAfter(err, halfClose)))
			return
		}
		c.up.awaitRoom(c.done)
	}
}

// readReplies reads from the target until it closes. Redis never closes one direction only.
func (c *conn) readReplies() {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.server.Read(buf)
		if !c.awaitFlow(ToClient) {
			if err != nil {
				c.endHalfOpen(err)
				return
			}
			continue
		}
		c.takeReplies(buf[:n])
		if err != nil {
			c.down.push(c.segment(nil, endAfter(err, closeFIN)))
			return
		}
		if !c.down.awaitRoom(c.done) {
			return
		}
	}
}

// endHalfOpen ends a connection whose remaining side has ended with err.
func (c *conn) endHalfOpen(err error) {
	if c.halfOpen.Load() && !errors.Is(err, net.ErrClosed) {
		c.cut(RST)
	}
}

// endAfter returns how to end the other side after a read error.
func endAfter(err error, orderly endOf) endOf {
	if errors.Is(err, io.EOF) {
		return orderly
	}
	return closeRST
}

// segment returns a segment with data, due after the current delay. It keeps data.
func (c *conn) segment(data []byte, end endOf) segment {
	s := segment{data: data, end: end}
	if d := c.proxy.currentDelay(); d > 0 {
		s.due = time.Now().Add(d)
	}
	return s
}

func (c *conn) writeRequests() { c.write(ToTarget, c.up, c.server, &c.proxy.stats.toTarget) }

func (c *conn) writeReplies() { c.write(ToClient, c.down, c.client, &c.proxy.stats.toClient) }

// write writes the segments of q to dst until the connection ends. If a write fails, it discards
// the rest of the stream. The goroutine that reads from dst then gets the reason and ends the
// connection.
func (c *conn) write(way Way, q *queue, dst *net.TCPConn, count *atomic.Int64) {
	for {
		s, ok := q.pop(c.done)
		if !ok || !c.admit(way, s) {
			return
		}
		c.throttled(s.data, dst.Write, count)
		switch s.end {
		case halfClose:
			_ = dst.CloseWrite()
		case closeFIN:
			c.cut(FIN)
		case closeRST:
			c.cut(RST)
		case dropFIN, dropRST:
			how := FIN
			if s.end == dropRST {
				how = RST
			}
			if c.cut(how) {
				c.proxy.stats.dropped.Add(1)
			}
		}
	}
}
