package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"leash/proxy/resp"
)

// strangers send mutated streams.
type strangers struct {
	bed                       *testbed
	connections, sent, read   atomic.Int64
	handshakes, reset, halved atomic.Int64
	refused                   atomic.Int64
}

// work sends one stream after the other until ctx is done. An error is a wrong answer of Leash.
func (s *strangers) work(ctx context.Context, r *rand.Rand) error {
	for ctx.Err() == nil {
		secure, hello := r.IntN(3) == 0, r.IntN(8) == 0
		conn, err := s.connect(secure && !hello, secure)
		if err != nil {
			s.refused.Add(1) // Leash may refuse a stranger, or the machine is too slow for the handshake
			time.Sleep(10 * time.Millisecond)
			continue
		}
		s.connections.Add(1)
		err = s.exchange(conn, r, !secure || !hello)
		conn.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// connect connects to the port for TLS if secure is set, and does the handshake if shake is set.
func (s *strangers) connect(shake, secure bool) (net.Conn, error) {
	if secure && !shake {
		s.handshakes.Add(1)
		return net.Dial("tcp", s.bed.tlsAddr)
	}
	return s.bed.dial(shake)
}

// exchange sends a stream in pieces, reads for a while, and ends the connection in one of several
// ways. If speaks is set, Leash must answer in RESP.
func (s *strangers) exchange(conn net.Conn, r *rand.Rand, speaks bool) error {
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	answered := make(chan error, 1)
	go func() { answered <- s.check(conn, speaks) }() // ends with the connection, or its deadline
	for b := stream(r); len(b) > 0; {
		n := len(b)
		if r.IntN(2) == 0 {
			n = 1 + r.IntN(n)
		}
		if _, err := conn.Write(b[:n]); err != nil {
			break // Leash may close the connection of a stranger
		}
		s.sent.Add(int64(n))
		b = b[n:]
	}
	wait := time.NewTimer(time.Duration(r.IntN(60)) * time.Millisecond)
	defer wait.Stop()
	switch r.IntN(4) {
	case 0: // at once
	case 1:
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
			s.halved.Add(1)
		}
		fallthrough
	default:
		select {
		case err := <-answered:
			return err
		case <-wait.C:
		}
	}
	if tcp, ok := conn.(*net.TCPConn); ok && r.IntN(2) == 0 {
		_ = tcp.SetLinger(0)
		s.reset.Add(1)
	}
	conn.Close()
	return <-answered
}

// check reads until the connection ends. It returns an error for bytes that are not RESP.
func (s *strangers) check(conn net.Conn, speaks bool) error {
	var scan resp.Scanner
	var last []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buf)
		s.read.Add(int64(n))
		for rest := buf[:n]; speaks && len(rest) > 0; {
			used, _, err := scan.Scan(rest)
			if err != nil {
				return fmt.Errorf("leash has sent bytes that are no reply: %.300q, after %.300q", rest, last)
			}
			last, rest = append(last[:0], rest[:used]...), rest[used:]
		}
		if err != nil {
			return nil
		}
	}
}
