package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"leash/internal/guard"
)

// Listen opens ports. Each address is host:port or unix:/path. The error names the address that
// failed.
func Listen(addrs []string, open Open) ([]net.Listener, error) {
	return listen("--listen", addrs, open)
}

// Open opens a listening socket, as net.Listen does.
type Open func(network, address string) (net.Listener, error)

// ListenTLS opens ports for clients that speak TLS. Each address is host:port. config returns the
// settings for the next client.
func ListenTLS(addrs []string, open Open, config func() *tls.Config) ([]net.Listener, error) {
	lns, err := listen("--tls-listen", addrs, open)
	for i, ln := range lns {
		lns[i] = &tlsListener{ln.(*net.TCPListener), config}
	}
	return lns, err
}

// tlsListener is a port for TLS. Its Accept returns connections before the handshake.
type tlsListener struct {
	*net.TCPListener
	config func() *tls.Config
}

// tlsOf returns what gives the TLS settings of a port. It is nil for a port without TLS.
func tlsOf(ln net.Listener) func() *tls.Config {
	if secure, ok := ln.(*tlsListener); ok {
		return secure.config
	}
	return nil
}

func listen(flag string, addrs []string, open Open) ([]net.Listener, error) {
	var lns []net.Listener
	for _, addr := range addrs {
		network, address := "tcp", addr
		if path, ok := strings.CutPrefix(addr, "unix:"); ok {
			network, address = "unix", path
		}
		ln, err := open(network, address)
		if err != nil {
			for _, ln := range lns {
				ln.Close()
			}
			return nil, fmt.Errorf("%s %s: %w", flag, addr, err)
		}
		lns = append(lns, ln)
	}
	return lns, nil
}

const (
	refuseAfter = time.Second // clients wait before that, because Redis usually answers at once
	refusalTime = time.Second // time for a client to read its refusal
	maxRefusals = 1000        // at a time; further connections are closed without an answer
)

// refusal answers clients with an error while Leash cannot serve them.
type refusal struct {
	log   *slog.Logger
	lns   []net.Listener
	reply string        // in RESP
	slots chan struct{} // size maxRefusals
	all   sync.WaitGroup
	over  chan struct{} // closed by stop
}

// Refuse accepts clients on lns from refuseAfter on, until stop is called. It answers each with
// reply and closes its connection. Earlier connections wait in the listeners' queues. stop returns
// when all goroutines have ended. After that, lns accept clients for the next user.
func Refuse(lns []net.Listener, reply string, log *slog.Logger) (stop func()) {
	r := &refusal{log: log, lns: lns, reply: reply, slots: make(chan struct{}, maxRefusals), over: make(chan struct{})}
	for _, ln := range lns {
		r.all.Go(guard.Func(log, "refusing clients", func() { r.accept(ln) }))
	}
	return sync.OnceFunc(r.stop)
}

// deadliner is implemented by the listeners of package net.
type deadliner interface{ SetDeadline(time.Time) error }

func (r *refusal) stop() {
	close(r.over)
	for _, ln := range r.lns {
		_ = ln.(deadliner).SetDeadline(time.Unix(1, 0)) // Accept returns
	}
	r.all.Wait()
	for _, ln := range r.lns {
		_ = ln.(deadliner).SetDeadline(time.Time{})
	}
}

func (r *refusal) accept(ln net.Listener) {
	if !r.pause(refuseAfter) {
		return
	}
	for {
		conn, err := ln.Accept()
		select {
		case <-r.over:
			if err == nil {
				conn.Close()
			}
			return
		default:
		}
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			r.log.Warn("accept failed", "err", err, "pause", maxAcceptDelay)
			r.pause(maxAcceptDelay)
			continue
		}
		select {
		case r.slots <- struct{}{}:
			config := tlsOf(ln)
			r.all.Go(guard.Func(r.log, "refusing a client", func() { r.refuse(conn, config) }))
		default:
			conn.Close()
		}
	}
}

// pause waits for d. It returns false if stop is called first.
func (r *refusal) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.over:
		return false
	case <-timer.C:
		return true
	}
}

// refuse answers a client and then reads until the client closes. Closing a socket with unread
// bytes would reset the connection, and the client would not see the answer.
func (r *refusal) refuse(conn net.Conn, config func() *tls.Config) {
	defer func() { <-r.slots }()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(refusalTime))
	if config != nil {
		conn = tls.Server(conn, config())
	}
	if _, err := io.WriteString(conn, r.reply); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, conn)
}
