package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// A layer encrypts and decrypts for a client that does its socket calls itself. It suits only
// exchangers that send nothing while a batch is in flight.
type layer struct {
	conn *tls.Conn
	wire *wire
	buf  []byte
}

// wire is what the connection of a layer reads and writes: the socket during the handshake, and
// then the buffers.
type wire struct {
	net.Conn
	buffered bool
	in, out  []byte
}

// errDry means that all that has come is decrypted. For package tls it is a time-out, after which
// it can go on.
type errDry struct{}

func (errDry) Error() string   { return "nothing more has come" }
func (errDry) Timeout() bool   { return true }
func (errDry) Temporary() bool { return true }

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	if !w.buffered {
		return w.Conn.Read(p)
	}
	if len(w.in) == 0 {
		return 0, errDry{}
	}
	n := copy(p, w.in)
	w.in = w.in[n:]
	return n, nil
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	if !w.buffered {
		return w.Conn.Write(p)
	}
	w.out = append(w.out, p...)
	return len(p), nil
}

// handshake blocks until TLS is agreed on.
func handshake(conn net.Conn, config *tls.Config) (*layer, error) {
	w := &wire{Conn: conn}
	l := &layer{conn: tls.Client(w, config), wire: w, buf: make([]byte, 16<<10)}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	if err := l.conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	w.buffered = true
	return l, nil
}

// encrypt appends what to send for plain to dst.
func (l *layer) encrypt(dst, plain []byte) ([]byte, error) {
	l.wire.out = dst
	_, err := l.conn.Write(plain)
	return l.wire.out, err
}

// decrypt gives what has come to receive, and returns its last answer.
func (l *layer) decrypt(came []byte, receive func([]byte) (bool, error)) (complete bool, err error) {
	l.wire.in = came
	for {
		n, err := l.conn.Read(l.buf)
		if n > 0 {
			if complete, err = receive(l.buf[:n]); err != nil {
				return false, err
			}
			continue
		}
		if errors.As(err, &errDry{}) {
			return complete, nil
		}
		return false, err
	}
}
