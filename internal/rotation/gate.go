package main

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// tokenSize is the length of every token, in bytes.
const tokenSize = 32

// keptBytes is one less than an AUTH has from the mark on. That much of a read is searched again.
var keptBytes = len(mark) + tokenSize - 1

// gate passes connections on to a Redis. It notes which token a connection has sent last, and
// closes the connections whose token has ended. Connections without a token stay.
type gate struct {
	ln    net.Listener
	redis string

	logins, closed atomic.Int64

	mu     sync.Mutex
	number map[string]int // of each token; numbers rise
	last   map[net.Conn]int
	all    sync.WaitGroup
}

func openGate(redis string) (*gate, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{ln: ln, redis: redis, number: make(map[string]int), last: make(map[net.Conn]int)}
	g.all.Go(g.accept)
	return g, nil
}

// close ends all connections and waits for their goroutines.
func (g *gate) close() {
	g.ln.Close()
	g.mu.Lock()
	for conn := range g.last {
		conn.Close()
	}
	g.mu.Unlock()
	g.all.Wait()
}

// accept returns when the listener is closed.
func (g *gate) accept() {
	for {
		conn, err := g.ln.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", g.redis)
		if err != nil {
			conn.Close()
			continue
		}
		g.mu.Lock()
		g.last[conn] = 0
		g.mu.Unlock()
		g.all.Go(func() { _, _ = io.Copy(conn, to); conn.Close(); to.Close() })
		g.all.Go(func() { g.pass(conn, to); conn.Close(); to.Close() })
	}
}

// pass copies what Leash sends, and looks for tokens in it.
func (g *gate) pass(conn, to net.Conn) {
	defer func() {
		g.mu.Lock()
		delete(g.last, conn)
		g.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	kept := 0 // bytes of buf that were passed on before
	for {
		n, err := conn.Read(buf[kept:])
		if err != nil {
			return
		}
		g.note(conn, buf[:kept+n])
		if _, err := to.Write(buf[kept : kept+n]); err != nil {
			return
		}
		kept = copy(buf, buf[max(0, kept+n-keptBytes):kept+n])
	}
}

// mark begins the password of an AUTH of Leash's own user.
var mark = []byte("$5\r\nleash\r\n$32\r\n")

// note looks for the newest token in what a connection has sent.
func (g *gate) note(conn net.Conn, sent []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		i := bytes.Index(sent, mark)
		if i < 0 || len(sent) < i+len(mark)+tokenSize {
			return
		}
		sent = sent[i+len(mark):]
		if number := g.number[string(sent[:tokenSize])]; number > 0 {
			g.last[conn] = number
			g.logins.Add(1)
		}
	}
}

// add makes a token known.
func (g *gate) add(token string, number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.number[token] = number
}

// expire closes the connections whose last token has this number or a smaller one.
func (g *gate) expire(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for conn, last := range g.last {
		if last > 0 && last <= number {
			conn.Close()
			g.closed.Add(1)
		}
	}
}
