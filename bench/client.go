package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A client is one connection and the batch that is on its way.
type client struct {
	id     int
	file   *os.File
	fd     int
	stream *stream

	request []byte // of the batch; the first sent bytes have been written
	sent    int
	reply   []byte // of the batch; the first got bytes have been read
	got     int
	began   time.Time // when the batch was written
	stuck   bool      // the socket has not taken the whole request yet
}

const dialTimeout = 5 * time.Second

// dial connects. The socket is ours alone from then on: the Go runtime does not poll it.
func dial(id int, addr string, s *stream) (*client, error) {
	conn, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	file, err := conn.(*net.TCPConn).File() // a duplicate, with TCP_NODELAY as Go sets it
	if err != nil {
		return nil, err
	}
	fd := int(file.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &client{id: id, file: file, fd: fd, stream: s}, nil
}

// begin sends the next batch of n commands.
func (c *client) begin(n int, now time.Time) error {
	c.request, c.reply = c.stream.next(n, c.request[:0], c.reply[:0])
	c.sent, c.got, c.began = 0, 0, now
	return c.write()
}

// write gives the socket what it takes of the request.
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

// read takes what has come, checks it, and reports whether the batch is complete.
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
	rest := c.reply[c.got:]
	if n > len(rest) || !bytes.Equal(buf[:n], rest[:n]) {
		return false, c.wrong(buf[:n])
	}
	c.got += n
	return c.got == len(c.reply), nil
}

// wrong is the error of a reply that is not the expected one: both from the line before they differ.
func (c *client) wrong(came []byte) error {
	rest := c.reply[c.got:]
	at := 0
	for at < min(len(came), len(rest)) && came[at] == rest[at] {
		at++
	}
	from := bytes.LastIndexByte(came[:at], '\n') + 1
	excerpt := func(b []byte) []byte { return b[min(from, len(b)):min(at+80, len(b))] }
	return fmt.Errorf("client %d: wrong reply: got %q, want %q", c.id, excerpt(came), excerpt(rest))
}

func (c *client) close() error {
	return c.file.Close()
}
