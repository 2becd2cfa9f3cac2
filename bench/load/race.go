package load

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// A Race is contention for one lock. Contenders wait for it, hold it, release it, and wait again.
type Race struct {
	Addrs  []string // of the Leashes; contenders use them in turn
	Count  int
	Hold   time.Duration // how long each holds it
	Key    string
	Warmup time.Duration
	Round  time.Duration
}

// minWait is how long a contender must have waited for its grant to count as a hand-over. A shorter
// wait means that the lock was free.
const minWait = 50 * time.Microsecond

// A contender is one client of a race.
type contender struct {
	race     *racing
	client   *client
	addr     string
	reply    integers
	acquire  []byte
	release  []byte
	asked    time.Time
	released bool // it waits for the reply to a release
}

// racing is a race while it runs. It belongs to one goroutine.
type racing struct {
	Race
	poller     *poller
	contenders []*contender
	buf        []byte

	holder   *contender
	last     *contender // who held it before
	token    int64
	due      time.Time // when holder releases
	released time.Time // when last did
	phase    phase
	began    time.Time // when warming or counting did
	idle     int       // contenders that have finished: draining
	sample   Sample    // its commands are grants, its latencies those of hand-overs
}

// Run runs the race for warmup and round, in the calling goroutine, and calls mark as Load.Run
// does. A sample is a hand-over: from the sending of a release until the grant arrives at the next
// holder. Two holders at a time, or a token that does not rise, end the run with an error. At the
// end the lock is free. Otherwise a connection might close with an unread grant, whose lease would
// have to run out.
func (r Race) Run(ctx context.Context, mark func() error) (*Sample, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	defer p.close()
	now := time.Now()
	g := &racing{Race: r, poller: p, buf: make([]byte, 4<<10), began: now, released: now}
	defer g.close()
	if err := g.connect(); err != nil {
		return nil, err
	}
	if err := g.runWhile(ctx, func() bool { return time.Since(g.began) < r.Warmup }); err != nil {
		return nil, err
	}
	if err := mark(); err != nil {
		return nil, err
	}
	g.phase, g.began = counting, time.Now()
	if err := g.runWhile(ctx, func() bool { return time.Since(g.began) < r.Round }); err != nil {
		return nil, err
	}
	g.phase, g.sample.Elapsed = draining, time.Since(g.began)
	if err := mark(); err != nil {
		return nil, err
	}
	if err := g.runWhile(ctx, func() bool { return g.idle < r.Count }); err != nil {
		return nil, err
	}
	g.sample.quantiles()
	return &g.sample, nil
}

// connect lets all contenders ask for the lock.
func (g *racing) connect() error {
	for i := range g.Count {
		c := &contender{
			race: g, addr: g.Addrs[i%len(g.Addrs)],
			acquire: command("LOCK.ACQUIRE", g.Key, "BLOCK", "0"), release: command("LOCK.RELEASE", g.Key),
		}
		var err error
		if c.client, err = dial(i, Route{Addr: c.addr}, c); err != nil {
			return err
		}
		g.contenders = append(g.contenders, c)
		if err := g.poller.add(c.client.fd, i); err != nil {
			return err
		}
		if err := c.client.begin(time.Now()); err != nil {
			return err
		}
	}
	return nil
}

func (g *racing) close() {
	for _, c := range g.contenders {
		_ = c.client.close()
	}
}

// runWhile runs while more returns true.
func (g *racing) runWhile(ctx context.Context, more func() bool) error {
	for more() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause := waitTimeout
		if g.holder != nil {
			pause = time.Millisecond
		} else if time.Since(g.released) > stallTimeout {
			return fmt.Errorf("nobody got the lock for %v", stallTimeout)
		}
		if err := g.poller.wait(pause, g.ready); err != nil {
			return err
		}
		if h := g.holder; h != nil && !time.Now().Before(g.due) {
			if err := h.client.send(h.sendRelease(nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ready handles a contender that has a reply.
func (g *racing) ready(id int) error {
	c := g.contenders[id].client
	complete, err := g.poller.serve(c, g.buf)
	if err != nil || !complete {
		return err
	}
	if g.phase == draining {
		g.idle++
		return nil
	}
	return c.begin(time.Now())
}

// begin implements exchanger: a batch is a grant with its release.
func (c *contender) begin(request []byte) []byte {
	c.released, c.asked = false, time.Now()
	return append(request, c.acquire...)
}

// receive implements exchanger.
func (c *contender) receive(came, request []byte) (newRequest []byte, complete bool, err error) {
	whole, err := c.reply.receive(came)
	switch {
	case err != nil:
		return request, false, err
	case !whole:
		return request, false, nil
	case len(c.reply.list) != 1 || c.reply.list[0] < 1:
		return request, false, fmt.Errorf("wrong reply: got %d, want a positive integer", c.reply.list)
	case c.released:
		return request, true, nil
	}
	if err := c.race.granted(c, c.reply.list[0], time.Now()); err != nil {
		return request, false, err
	}
	if c.race.Hold == 0 {
		request = c.sendRelease(request)
	}
	return request, false, nil
}

// sendRelease sends the release.
func (c *contender) sendRelease(request []byte) []byte {
	g := c.race
	g.holder, g.last, g.released, c.released = nil, c, time.Now(), true
	return append(request, c.release...)
}

// granted records that c holds the lock.
func (g *racing) granted(c *contender, token int64, now time.Time) error {
	if g.holder != nil {
		return fmt.Errorf("granted to %d while %d holds the lock", c.client.id, g.holder.client.id)
	}
	if token <= g.token {
		return fmt.Errorf("granted with token %d after %d", token, g.token)
	}
	g.holder, g.token, g.due = c, token, now.Add(g.Hold)
	if g.phase != counting {
		return nil
	}
	g.sample.Commands++
	if g.handedOver(c) {
		g.sample.latency.Add(now.Sub(g.released))
	}
	return nil
}

// handedOver reports whether c was waiting for the lock when the last holder released it. With
// several Leashes, c must also be on another Leash than that holder.
func (g *racing) handedOver(c *contender) bool {
	return g.last != nil && g.released.Sub(c.asked) > minWait && (len(g.Addrs) == 1 || g.last.addr != c.addr)
}
