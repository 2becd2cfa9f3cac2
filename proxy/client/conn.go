package client

import (
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"leash/proxy/origin"
)

// Conn is a client's socket. Its reads block and its writes do not, except Push.
type Conn struct {
	net.Conn    // the socket; with TLS, its bytes are encrypted
	log         *slog.Logger
	raw         syscall.RawConn
	sent        *atomic.Int64        // see Config
	secure      *secure              // nil: the client speaks plain
	balanced    bool                 // a balancer relays it and sends a PROXY protocol header first
	peerTimeout func() time.Duration // silence after which a guarded peer is dead
	// the client named in that header; nil: no header, or the balancer's own connection
	from   atomic.Pointer[origin.Origin]
	closed atomic.Bool
	shut   atomic.Bool // Shut has been called
	ahead  []byte      // bytes that a Watcher has read; used by the goroutine that reads

	// Used by the one goroutine that writes.
	pending      []byte
	written      int
	failure      error
	tryOnce      func(fd uintptr) bool // writes what the socket takes at once
	waitAndWrite func(fd uintptr) bool // is called again until the socket takes a byte

	guarded atomic.Bool // see Guard

	// keepMu guards the field below. It is held while the socket's options are set to match.
	keepMu sync.Mutex
	// probesFor is the peer timeout that short keepalive intervals are made for. 0: they are long.
	probesFor time.Duration

	unackedSince time.Time // used by PeerSilent only
}

func newConn(nc net.Conn, tlsConfig *tls.Config, cfg *Config) (*Conn, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, syscall.EINVAL
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &Conn{
		Conn: nc, log: cfg.Log, raw: raw, sent: cfg.Sent, balanced: cfg.ProxyProtocol, peerTimeout: cfg.PeerTimeout,
	}
	c.tryOnce = func(fd uintptr) bool { c.writeOnce(fd); return true }
	c.waitAndWrite = func(fd uintptr) bool {
		c.writeOnce(fd)
		return c.written > 0 || c.failure != nil
	}
	if tlsConfig != nil {
		c.secure = newSecure(c, tlsConfig)
	}
	return c, nil
}

// Read reads what the client has sent.
func (c *Conn) Read(p []byte) (int, error) {
	if len(c.ahead) == 0 {
		return c.receive(p)
	}
	n := copy(p, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		c.ahead = nil
	}
	return n, nil
}

// HasAhead reports whether a Watcher has read bytes that Read has not returned yet.
func (c *Conn) HasAhead() bool { return len(c.ahead) > 0 }

func (c *Conn) receive(p []byte) (int, error) {
	if c.secure != nil {
		return c.secure.read(p)
	}
	return c.Conn.Read(p)
}

// Close closes the socket.
func (c *Conn) Close() error {
	c.closed.Store(true)
	if c.secure != nil {
		c.secure.sayGoodbye()
	}
	return c.Conn.Close()
}

// Try writes as many bytes as the socket accepts at once and returns their number. Only one
// goroutine may write at a time.
func (c *Conn) Try(p []byte) (int, error) { return c.send(p, c.tryOnce) }

// Push writes as Try does, but waits until the socket takes at least one byte. With TLS, that byte
// need not be the last one of a record. Then Push returns 0.
func (c *Conn) Push(p []byte) (int, error) { return c.send(p, c.waitAndWrite) }

func (c *Conn) send(p []byte, f func(uintptr) bool) (n int, err error) {
	if c.secure != nil {
		n, err = c.secure.write(p, f)
	} else {
		n, err = c.write(p, f)
	}
	if c.sent != nil {
		c.sent.Add(int64(n))
	}
	return n, err
}

func (c *Conn) write(p []byte, f func(uintptr) bool) (int, error) {
	c.pending, c.written, c.failure = p, 0, nil
	err := c.raw.Write(f)
	c.pending = nil
	if err == nil {
		err = c.failure
	}
	return c.written, err
}

func (c *Conn) writeOnce(fd uintptr) {
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

// Descriptor is the socket's file descriptor, or -1 once it is closed.
func (c *Conn) Descriptor() int {
	n := -1
	_ = c.raw.Control(func(fd uintptr) { n = int(fd) })
	return n
}

// Shut ends both directions at once, without waiting for other users of the socket. The file
// descriptor stays open until Close. The kernel still sends the bytes that it has accepted.
func (c *Conn) Shut() {
	c.shut.Store(true)
	_ = c.raw.Control(func(fd uintptr) {
		_ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR)
	})
	_ = c.SetDeadline(time.Unix(1, 0))
}
