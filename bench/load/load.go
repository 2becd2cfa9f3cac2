// Package load sends what bench measures: batches of commands, pairs of acquire and release, races
// for a lock, requests at a steady rate. It checks each reply.
package load

import (
	"context"
	"crypto/tls"
	"fmt"
	"runtime"
	"time"
)

// A Route is where a client connects, and which keys it may use there.
type Route struct {
	Addr string
	Owns func(key string) bool // nil: every key
	TLS  *tls.Config           // nil: without TLS
}

// A Load is the work for a target in one measurement.
type Load struct {
	Routes    []Route // clients use them in turn
	Clients   int
	Pipeline  int
	ValueSize int
	Keys      int // of all clients together
	Sets      int // percent
	Warmup    time.Duration
	Round     time.Duration
	// Talk returns what client number i sends on its route; nil: SET and GET as given above.
	Talk func(i int, at Route) Exchanger
}

// A Sample is the result of one measurement.
type Sample struct {
	Commands int
	Elapsed  time.Duration
	latency  Histogram     // of batches
	P50, P99 time.Duration // of batches
}

func (s *Sample) quantiles() { s.P50, s.P99 = s.latency.Quantile(0.50), s.latency.Quantile(0.99) }

const (
	// waitTimeout is how often an idle load checks whether to end.
	waitTimeout = 50 * time.Millisecond
	// stallTimeout is how long the load waits for any reply.
	stallTimeout = 10 * time.Second
)

// Run runs the load for warmup and round, in the calling goroutine. It calls mark where the part
// that counts begins and ends. It returns when every reply has come. A wrong reply, or a target
// that has stopped answering, ends it with an error.
func (l Load) Run(ctx context.Context, mark func() error) (*Sample, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	defer p.close()
	clients, err := l.connect(p)
	defer closeAll(clients)
	if err != nil {
		return nil, err
	}
	r := &running{Load: l, poller: p, clients: clients, mark: mark, buf: make([]byte, 64<<10)}
	if err := r.start(time.Now()); err != nil {
		return nil, err
	}
	for r.phase != draining || r.waiting > 0 {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if err := p.wait(waitTimeout, r.ready); err != nil {
			return nil, err
		}
		if err := r.tick(time.Now()); err != nil {
			return nil, err
		}
	}
	r.sample.quantiles()
	return &r.sample, nil
}

// connect opens all connections. It returns those that it has opened, even with an error.
func (l Load) connect(p *poller) ([]*client, error) {
	var clients []*client
	for i := range l.Clients {
		at := l.Routes[i%len(l.Routes)]
		c, err := dial(i, at, l.newExchanger(i, at))
		if err != nil {
			return clients, err
		}
		clients = append(clients, c)
		if err := p.add(c.fd, i); err != nil {
			return clients, err
		}
	}
	return clients, nil
}

func (l Load) newExchanger(i int, at Route) Exchanger {
	if l.Talk != nil {
		return l.Talk(i, at)
	}
	keys := KeysFor(i, max(1, l.Keys/l.Clients), at.Owns)
	return &batches{stream: newStream(keys, l.ValueSize, l.Sets, uint64(i)+1), size: l.Pipeline}
}

func closeAll(clients []*client) {
	for _, c := range clients {
		_ = c.close()
	}
}

// running is a load while it runs. It belongs to one goroutine.
type running struct {
	Load
	poller  *poller
	clients []*client
	mark    func() error
	buf     []byte

	sample    Sample
	phase     phase
	began     time.Time // of the phase
	waiting   int       // clients with a batch in flight
	lastReply time.Time
}

// A phase is a part of a measurement.
type phase int

const (
	warming  phase = iota
	counting       // the part that counts
	draining       // nothing more is sent; the last replies must come
)

func (r *running) start(now time.Time) error {
	r.began, r.lastReply = now, now
	for _, c := range r.clients {
		if err := r.send(c, now); err != nil {
			return err
		}
	}
	return nil
}

// send begins the client's next batch.
func (r *running) send(c *client, now time.Time) error {
	r.waiting++
	if err := c.begin(now); err != nil {
		return err
	}
	return r.poller.updateInterest(c)
}

// ready handles a client whose socket has replies, or is writable again.
func (r *running) ready(id int) error {
	c := r.clients[id]
	complete, err := r.poller.serve(c, r.buf)
	if err != nil || !complete {
		return err
	}
	now := time.Now()
	r.lastReply = now
	r.waiting--
	switch r.phase {
	case counting:
		r.sample.Commands += r.Pipeline
		r.sample.latency.Add(now.Sub(c.began))
	case draining:
		return nil
	}
	return r.send(c, now)
}

// tick begins the next phase when it is due.
func (r *running) tick(now time.Time) error {
	switch {
	case now.Sub(r.lastReply) > stallTimeout:
		return fmt.Errorf("no reply for %v, %d clients wait", stallTimeout, r.waiting)
	case r.phase == warming && now.Sub(r.began) >= r.Warmup:
		r.phase, r.began = counting, now
		return r.mark()
	case r.phase == counting && now.Sub(r.began) >= r.Round:
		r.phase, r.sample.Elapsed = draining, now.Sub(r.began)
		return r.mark()
	}
	return nil
}
