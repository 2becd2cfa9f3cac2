package proxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"leash/proxy/origin"
)

// tick is the only command of a connection that redcon's command reader sees. It is well formed.
// Its handler runs the session until the session has ended. redcon never sees the client's bytes.
// resp.Parser checks those.
const tick = "*1\r\n$4\r\nTICK\r\n"

// conn is a client connection that redcon serves. For redcon it is a net.Conn that yields one tick
// and discards writes. redcon can close it at any time without blocking. For the session it is a
// socket with blocking reads and non-blocking writes.
type conn struct {
	net.Conn
	raw      syscall.RawConn
	session  *session
	balanced bool // a balancer relays it and sends a PROXY protocol header first
	// the client named in that header; nil: no header, or the balancer's own connection
	from atomic.Pointer[origin.Origin]

	ticked bool        // used by redcon's goroutine only
	ended  atomic.Bool // the session has ended: Close closes the socket

	// Used by the one goroutine that writes; see session.Flush.
	pending      []byte
	written      int
	failure      error
	tryOnce      func(fd uintptr) bool // writes what the socket takes at once
	waitAndWrite func(fd uintptr) bool // is called again until the socket takes a byte

	// keepMu guards the field below. It is held while the socket's options are set to match.
	keepMu      sync.Mutex
	probesOften bool // short keepalive intervals find a vanished peer soon
}

func newConn(nc net.Conn) (*conn, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, syscall.EINVAL
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, raw: raw}
	c.tryOnce = func(fd uintptr) bool { c.writeOnce(fd); return true }
	c.waitAndWrite = func(fd uintptr) bool {
		c.writeOnce(fd)
		return c.written > 0 || c.failure != nil
	}
	return c, nil
}

// Read yields the tick to redcon, and io.EOF once the session is over.
func (c *conn) Read(p []byte) (int, error) {
	if c.ticked {
		return 0, io.EOF
	}
	c.ticked = true
	return copy(p, tick), nil
}

// Write discards what redcon writes, which is always empty.
func (c *conn) Write(p []byte) (int, error) { return len(p), nil }

// Close ends the session, which then closes the socket. redcon calls it with its mutex held, so it
// does not block.
func (c *conn) Close() error {
	if c.session != nil && !c.ended.Load() {
		c.session.kill("server closed", false)
		return nil
	}
	return c.Conn.Close()
}

// receive reads from the client. It blocks.
func (c *conn) receive(p []byte) (int, error) { return c.Conn.Read(p) }

// try writes as many bytes as the socket accepts at once and returns their number. Only one
// goroutine may write at a time.
func (c *conn) try(p []byte) (int, error) {
	return c.write(p, c.tryOnce)
}

// push writes as try does, but waits until the socket takes at least one byte.
func (c *conn) push(p []byte) (int, error) {
	return c.write(p, c.waitAndWrite)
}

func (c *conn) write(p []byte, f func(uintptr) bool) (int, error) {
	c.pending, c.written, c.failure = p, 0, nil
	err := c.raw.Write(f)
	c.pending = nil
	if err == nil {
		err = c.failure
	}
	return c.written, err
}

func (c *conn) writeOnce(fd uintptr) {
	for {
		n, err := syscall.Write(int(fd), c.pending)
		switch err {
		case nil:
			c.written = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
		default:
			c.failure = err
		}
		return
	}
}

// descriptor is the socket's file descriptor, or -1 once it is closed.
func (c *conn) descriptor() int {
	n := -1
	_ = c.raw.Control(func(fd uintptr) { n = int(fd) })
	return n
}

// shut ends both directions at once, without waiting for other users of the socket. The file
// descriptor stays open until Close. The kernel still sends the bytes that it has accepted.
func (c *conn) shut() {
	_ = c.raw.Control(func(fd uintptr) {
		_ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR)
	})
	_ = c.SetDeadline(time.Unix(1, 0))
}

// probeOften sets short keepalive intervals, which find a vanished peer soon.
func (c *conn) probeOften() {
	c.keepMu.Lock()
	defer c.keepMu.Unlock()
	if !c.probesOften {
		c.probesOften = true
		c.setKeepAlive(true)
	}
}

// probeSeldom restores the usual keepalive intervals, unless the session has holds or waiters.
// Those set session.guarded before they call probeOften.
func (c *conn) probeSeldom() {
	c.keepMu.Lock()
	defer c.keepMu.Unlock()
	if c.probesOften && !c.session.guarded.Load() {
		c.probesOften = false
		c.setKeepAlive(false)
	}
}
