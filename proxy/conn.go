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

// tick is all that redcon's command reader ever sees of a connection: one
// well-formed command, whose handler runs the session until it has ended. The
// client's bytes stay here, behind the gate (resp.Parser).
const tick = "*1\r\n$4\r\nTICK\r\n"

// conn is a client connection as redcon serves it. To redcon it is a net.Conn
// that gives one tick, swallows writes, and may be closed at any time without
// blocking. To the session it is a socket that is read with blocking, and
// written without.
type conn struct {
	net.Conn
	raw      syscall.RawConn
	session  *session
	balanced bool // a balancer passes it on, and says so first
	// what it says; nil: nothing, or that it speaks for itself
	from atomic.Pointer[origin.Origin]

	ticked bool        // redcon's goroutine only
	ended  atomic.Bool // the session has ended: Close closes the socket

	// For the one goroutine that writes; see session.flush.
	pending []byte
	written int
	failure error
	attempt func(fd uintptr) bool
	patient func(fd uintptr) bool

	// keepMu guards the field below, and is held while the socket is set accordingly.
	keepMu      sync.Mutex
	probesOften bool // keepalives find a vanished peer soon
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
	c.attempt = func(fd uintptr) bool { c.writeOnce(fd); return true }
	c.patient = func(fd uintptr) bool {
		c.writeOnce(fd)
		return c.written > 0 || c.failure != nil
	}
	return c, nil
}

// Read gives redcon its tick, and the end once the session is over.
func (c *conn) Read(p []byte) (int, error) {
	if c.ticked {
		return 0, io.EOF
	}
	c.ticked = true
	return copy(p, tick), nil
}

// Write takes what redcon writes, which is nothing.
func (c *conn) Write(p []byte) (int, error) { return len(p), nil }

// Close ends the session, which then closes the socket; redcon calls it with
// its mutex held. It does not block.
func (c *conn) Close() error {
	if c.session != nil && !c.ended.Load() {
		c.session.kill("server closed", false)
		return nil
	}
	return c.Conn.Close()
}

// receive reads from the client; it blocks.
func (c *conn) receive(p []byte) (int, error) { return c.Conn.Read(p) }

// try writes what the socket takes at once and returns how much that was.
// Callers take turns.
func (c *conn) try(p []byte) (int, error) {
	return c.write(p, c.attempt)
}

// push waits until the socket takes at least one byte.
func (c *conn) push(p []byte) (int, error) {
	return c.write(p, c.patient)
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

// descriptor is the socket's file descriptor, -1 once it is closed.
func (c *conn) descriptor() int {
	n := -1
	_ = c.raw.Control(func(fd uintptr) { n = int(fd) })
	return n
}

// shut ends both directions at once without waiting for anyone who uses the
// socket; the file descriptor stays until Close. What the kernel has taken
// still goes out.
func (c *conn) shut() {
	_ = c.raw.Control(func(fd uintptr) {
		_ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR)
	})
	_ = c.SetDeadline(time.Unix(1, 0))
}

// probeOften lets keepalives find a vanished peer soon.
func (c *conn) probeOften() {
	c.keepMu.Lock()
	defer c.keepMu.Unlock()
	if !c.probesOften {
		c.probesOften = true
		c.setKeepAlive(true)
	}
}

// probeSeldom gives the socket its usual keepalives back, unless the session has
// holds or waiters: those have said so before they tighten.
func (c *conn) probeSeldom() {
	c.keepMu.Lock()
	defer c.keepMu.Unlock()
	if c.probesOften && !c.session.guarded.Load() {
		c.probesOften = false
		c.setKeepAlive(false)
	}
}
