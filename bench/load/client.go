package load

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A client is one connection and its batch in flight.
type client struct {
	id    int
	file  *os.File
	fd    int
	talk  Exchanger
	began time.Time // when the batch began

	secure *layer // nil: without TLS
	plain  []byte // with TLS: what request holds encrypted

	request      []byte // the request; its first sent bytes are written
	sent         int
	stuck        bool // the socket has not taken the whole request yet
	watchesWrite bool // the poller reports when the socket takes more
}

// An Exchanger is what a client sends, batch by batch, and the replies that it expects.
type Exchanger interface {
	// begin appends the first requests of the next batch to request.
	begin(request []byte) []byte
	// receive takes what has come and reports whether the batch is complete. If it is not, receive
	// appends what the client must send now to request.
	receive(came, request []byte) (newRequest []byte, complete bool, err error)
}

const dialTimeout = 5 * time.Second

// dial connects. Only this package uses the socket then: the Go runtime does not poll it.
func dial(id int, at Route, talk Exchanger) (*client, error) {
	conn, err := net.DialTimeout("tcp", at.Addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var secure *layer
	if at.TLS != nil {
		if secure, err = handshake(conn, at.TLS); err != nil {
			return nil, err
		}
	}
	file, err := conn.(*net.TCPConn).File() // a duplicate, with TCP_NODELAY as Go sets it
	if err != nil {
		return nil, err
	}
	fd := int(file.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &client{id: id, file: file, fd: fd, talk: talk, secure: secure}, nil
}

// begin sends the next batch.
func (c *client) begin(now time.Time) error {
	c.began, c.sent = now, 0
	if c.secure == nil {
		c.request = c.talk.begin(c.request[:0])
		return c.write()
	}
	c.plain = c.talk.begin(c.plain[:0])
	var err error
	if c.request, err = c.secure.encrypt(c.request[:0], c.plain); err != nil {
		return fmt.Errorf("client %d: %w", c.id, err)
	}
	return c.write()
}

// send sends a request that answers no reply. No other request may be in flight.
func (c *client) send(request []byte) error {
	c.request, c.sent = append(c.request[:0], request...), 0
	return c.write()
}

// write writes as much of the request as the socket takes.
func (c *client) write() error {
	for c.sent < len(c.request) {
		n, err := unix.Write(c.fd, c.request[c.sent:])
		switch err {
		case nil:
			c.sent += n
		case unix.EINTR:
		case unix.EAGAIN:
			c.stuck = true
			return nil
		default:
			return fmt.Errorf("client %d: write: %w", c.id, err)
		}
	}
	c.stuck = false
	return nil
}

// read reads what has come, sends what must follow, and reports whether the batch is complete.
func (c *client) read(buf []byte) (complete bool, err error) {
	n, err := unix.Read(c.fd, buf)
	switch {
	case err == unix.EAGAIN, err == unix.EINTR:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("client %d: read: %w", c.id, err)
	case n == 0:
		return false, fmt.Errorf("client %d: %w: the connection was closed", c.id, io.ErrUnexpectedEOF)
	}
	if c.secure != nil {
		complete, err = c.secure.decrypt(buf[:n], func(came []byte) (complete bool, err error) {
			c.plain, complete, err = c.talk.receive(came, c.plain)
			return complete, err
		})
		if err != nil {
			err = fmt.Errorf("client %d: %w", c.id, err)
		}
		return complete, err
	}
	if c.sent == len(c.request) {
		c.request, c.sent = c.request[:0], 0
	}
	c.request, complete, err = c.talk.receive(buf[:n], c.request)
	if err != nil {
		return false, fmt.Errorf("client %d: %w", c.id, err)
	}
	if c.sent < len(c.request) && !c.stuck {
		err = c.write()
	}
	return complete, err
}

func (c *client) close() error {
	return c.file.Close()
}

// serve handles a client that wait has reported. It reports whether the batch is complete.
func (p *poller) serve(c *client, buf []byte) (complete bool, err error) {
	if c.stuck {
		if err := c.write(); err != nil {
			return false, err
		}
	}
	complete, err = c.read(buf)
	if err != nil {
		return false, err
	}
	return complete, p.updateInterest(c)
}

// updateInterest makes wait report c when it is writable, as long as it is stuck.
func (p *poller) updateInterest(c *client) error {
	if c.stuck == c.watchesWrite {
		return nil
	}
	c.watchesWrite = c.stuck
	return p.writable(c.fd, c.id, c.stuck)
}
