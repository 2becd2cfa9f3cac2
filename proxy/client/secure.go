package client

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// secure is the TLS of a connection. Leash writes to sockets without blocking, and a tls.Conn
// cannot continue a write that was cut short. So the tls.Conn writes into a buffer, and the bytes
// of the buffer go to the socket as it takes them.
type secure struct {
	conn *Conn
	tls  *tls.Conn
	// writing is held by the goroutine that writes to the socket. It guards the field below.
	writing sync.Mutex
	pending int // bytes of the client's output that are in the buffer

	// mu guards the fields below. Never held across I/O.
	mu     sync.Mutex
	shaken bool   // the handshake is over; before that, the tls.Conn writes to the socket itself
	sealed []byte // encrypted bytes for the socket
	sent   int    // sealed[:sent] is in the socket
}

const (
	// recordBytes is how many bytes of output are encrypted at a time: those of the largest record.
	recordBytes = 16 << 10
	// maxSealed bounds the buffer. It has the records of one write, and answers to a client that
	// asks for new keys again and again without reading.
	maxSealed = 4 * recordBytes
	// keptSealed is the size up to which the buffer is kept between writes.
	keptSealed = 4 << 10
)

var errSealedFull = errors.New("too many TLS messages that the client does not read")

func newSecure(c *Conn, config *tls.Config) *secure {
	s := &secure{conn: c}
	s.tls = tls.Server((*transport)(s), config)
	return s
}

// transport is the connection as the tls.Conn sees it.
type transport secure

// Read reads encrypted bytes from the socket.
func (t *transport) Read(p []byte) (int, error) { return t.conn.Conn.Read(p) }

// Write keeps encrypted bytes for the socket. It does not block, except during the handshake.
func (t *transport) Write(p []byte) (int, error) {
	if !(*secure)(t).ready() {
		return t.conn.Conn.Write(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.sealed)-t.sent+len(p) > maxSealed {
		return 0, errSealedFull
	}
	t.sealed = append(t.sealed, p...)
	return len(p), nil
}

func (t *transport) Close() error         { return t.conn.Conn.Close() }
func (t *transport) LocalAddr() net.Addr  { return t.conn.Conn.LocalAddr() }
func (t *transport) RemoteAddr() net.Addr { return t.conn.Conn.RemoteAddr() }

// SetDeadline and the two below do nothing. Conn sets the deadlines of the socket itself.
func (t *transport) SetDeadline(time.Time) error      { return nil }
func (t *transport) SetReadDeadline(time.Time) error  { return nil }
func (t *transport) SetWriteDeadline(time.Time) error { return nil }

// Secure reports whether the client speaks TLS.
func (c *Conn) Secure() bool { return c.secure != nil }

// TLSState returns what the handshake has told about the client. It is empty if the client speaks
// plain. Call it after Handshake.
func (c *Conn) TLSState() (state tls.ConnectionState) {
	if c.secure != nil {
		state = c.secure.tls.ConnectionState()
	}
	return state
}

// ErrPlain means that a client does not speak TLS on a port for TLS.
var ErrPlain = errors.New("the client does not speak TLS, but the port is for TLS")

// plainRefusal is the answer to such a client.
const plainRefusal = "-ERR this port expects TLS\r\n"

// Handshake does the TLS handshake. The deadlines of the connection limit it. It does nothing if
// the client speaks plain.
func (c *Conn) Handshake() error {
	s := c.secure
	if s == nil {
		return nil
	}
	if err := s.tls.Handshake(); err != nil {
		if odd, ok := errors.AsType[tls.RecordHeaderError](err); ok && odd.Conn != nil {
			_, _ = io.WriteString(c.Conn, plainRefusal)
			return ErrPlain
		}
		return err
	}
	s.mu.Lock()
	s.shaken = true
	s.mu.Unlock()
	return nil
}

// read reads what the client has sent. A FIN without the end that TLS provides is an end as well:
// the kernel sends only the FIN when it ends a client's process.
func (s *secure) read(p []byte) (int, error) {
	n, err := s.tls.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// write encrypts the first bytes of p, at most a record, and gives them to the socket. It returns
// their number, or 0 if the socket has not taken all of the record. The next call must then begin
// with the same bytes. send is tryOnce or waitAndWrite.
func (s *secure) write(p []byte, send func(uintptr) bool) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if !s.ready() || len(p) == 0 {
		return 0, nil
	}
	if s.pending == 0 {
		p = p[:min(len(p), recordBytes)]
		s.makeRoom(len(p))
		n, err := s.tls.Write(p)
		if err != nil {
			return 0, err
		}
		s.pending = n
	}
	all, err := s.send(send)
	if err != nil || !all {
		return 0, err
	}
	n := s.pending
	s.pending = 0
	return n, nil
}

// makeRoom makes the buffer large enough for n bytes of output, so that it does not grow in steps.
// Go makes records of 1.2 KB from the first output of a connection, with 22 bytes around each.
func (s *secure) makeRoom(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > keptSealed/2 && cap(s.sealed) < n {
		s.sealed = append(make([]byte, 0, n+n/16+512), s.sealed...)
	}
}

func (s *secure) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shaken
}

// send writes encrypted bytes to the socket, once. It reports whether none is left. s.writing is
// held.
func (s *secure) send(f func(uintptr) bool) (all bool, err error) {
	s.mu.Lock()
	p := s.sealed[s.sent:]
	s.mu.Unlock()
	n := 0
	if len(p) > 0 {
		n, err = s.conn.write(p, f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += n
	if s.sent < len(s.sealed) {
		return false, err
	}
	if s.sent = 0; cap(s.sealed) > keptSealed {
		s.sealed = nil
	}
	s.sealed = s.sealed[:0]
	return true, err
}

// sayGoodbye tells the client that the end is no accident. It does not block. It does nothing while
// the socket takes no bytes.
func (s *secure) sayGoodbye() {
	if !s.writing.TryLock() {
		return
	}
	defer s.writing.Unlock()
	if s.pending > 0 || !s.ready() || s.tls.CloseWrite() != nil {
		return
	}
	_, _ = s.send(s.conn.tryOnce)
}
