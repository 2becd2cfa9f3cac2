package faultproxy

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const dialTimeout = 5 * time.Second

// Ending is how a connection is ended.
type Ending int

const (
	// FIN ends it in an orderly way: the peer reads what was sent, then EOF.
	FIN Ending = iota
	// RST ends it at once, and the peer gets an error.
	RST
)

// Proxy forwards connections to its target and makes faults on demand.
type Proxy struct {
	addr    string
	target  string
	stats   counters
	corrupt atomic.Uint64  // the share of replies to be corrupted, as math.Float64bits
	lies    atomic.Bool    // some of them are whole replies
	wg      sync.WaitGroup // the accept loop and all goroutines of connections

	// mu guards the fields below. It is not held across I/O, except to close and open the listener.
	// A connection's mutex is taken before it, never after it.
	mu     sync.Mutex
	ln     net.Listener // nil while refusing
	conns  map[*conn]struct{}
	faults []*Fault // replaced, never edited
	delay  time.Duration
	rate   int              // bytes a second, each way of each connection; 0 for any
	thawed [2]chan struct{} // by Way, closed while bytes may pass
	closed bool
}

// New starts a proxy before target (host:port), which need not be up yet, at a free port of
// 127.0.0.1. The caller closes it.
func New(target string) (*Proxy, error) { return Listen("127.0.0.1:0", target) }

// Listen is New with an address of the caller's choice.
func Listen(addr, target string) (*Proxy, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("faultproxy: %w", err)
	}
	p := &Proxy{
		addr: ln.Addr().String(), target: target, ln: ln, conns: map[*conn]struct{}{},
		thawed: [2]chan struct{}{make(chan struct{}), make(chan struct{})},
	}
	close(p.thawed[ToTarget])
	close(p.thawed[ToClient])
	p.wg.Go(func() { p.accept(ln) })
	return p, nil
}

// Addr is the address that the proxy listens at, host:port.
func (p *Proxy) Addr() string { return p.addr }

// Target is the address that the proxy forwards to.
func (p *Proxy) Target() string { return p.target }

// Close ends all connections and the listener. It returns when all goroutines of the proxy have
// ended. It may be called more than once.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	err := p.stopListeningLocked()
	p.mu.Unlock()
	for _, c := range p.open() {
		c.abandon()
	}
	p.wg.Wait()
	return err
}

// Refuse makes new connections fail as if nothing listened (on), or accepts them again. Current
// connections stay.
func (p *Proxy) Refuse(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return net.ErrClosed
	case on:
		return p.stopListeningLocked()
	case p.ln != nil:
		return nil
	}
	ln, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("faultproxy: %w", err)
	}
	p.ln = ln
	p.wg.Go(func() { p.accept(ln) })
	return nil
}

func (p *Proxy) stopListeningLocked() error {
	if p.ln == nil {
		return nil
	}
	err := p.ln.Close()
	p.ln = nil
	return err
}

// open returns the connections there are.
func (p *Proxy) open() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.conns))
}

// accept serves one listener until it is closed.
func (p *Proxy) accept(ln net.Listener) {
	for {
		client, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of files, say; the listener still stands
			time.Sleep(5 * time.Millisecond)
			continue
		}
		p.stats.accepted.Add(1)
		c := newConn(p, client.(*net.TCPConn))
		if !p.add(c) {
			c.abandon()
			return
		}
		p.wg.Go(c.serve)
	}
}

// add registers a connection unless the proxy is closed.
func (p *Proxy) add(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) remove(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
