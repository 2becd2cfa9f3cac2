package admin

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// connections limits how many connections there are. Above the limit, the oldest one without a
// running request is closed. If all have one, the new connection is closed. It is safe for
// concurrent use.
type connections struct {
	limit int

	mu       sync.Mutex
	all      map[net.Conn]*connection
	last     int64         // number of the newest one
	requests int           // that run
	ended    chan struct{} // closed when none runs any more; nil before the stop
}

// connection is what is known of one. The mutex of connections guards it.
type connection struct {
	number  int64
	serving bool // a request runs
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// changed is the ConnState of the HTTP server.
func (cs *connections) changed(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if extra := cs.add(c); extra != nil {
			cut(extra)
		}
	case http.StateClosed, http.StateHijacked:
		cs.mu.Lock()
		delete(cs.all, c)
		cs.mu.Unlock()
	}
}

// add adds a connection. It returns the one that must be closed, or nil.
func (cs *connections) add(c net.Conn) (extra net.Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.all == nil {
		cs.all = make(map[net.Conn]*connection)
	}
	cs.last++
	cs.all[c] = &connection{number: cs.last}
	if len(cs.all) <= cs.limit {
		return nil
	}
	oldest := cs.last + 1
	for other, state := range cs.all {
		if !state.serving && state.number < oldest {
			extra, oldest = other, state.number
		}
	}
	delete(cs.all, extra) // the server reports its end later
	return extra
}

// cut closes a connection without a goodbye. A TLS connection would wait until its client reads
// one.
func cut(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	c.Close()
}

// begin and end note that a request of the connection runs.
func (cs *connections) begin(ctx context.Context) { cs.setServing(ctx, true) }
func (cs *connections) end(ctx context.Context)   { cs.setServing(ctx, false) }

func (cs *connections) setServing(ctx context.Context, serving bool) {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if state := cs.all[c]; state != nil {
		state.serving = serving
	}
	if serving {
		cs.requests++
		return
	}
	if cs.requests--; cs.requests == 0 && cs.ended != nil {
		close(cs.ended)
		cs.ended = nil
	}
}

// idle returns a channel that is closed when no request runs. No new connections may come.
func (cs *connections) idle() <-chan struct{} {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	ended := make(chan struct{})
	if cs.requests == 0 {
		close(ended)
	} else {
		cs.ended = ended
	}
	return ended
}
