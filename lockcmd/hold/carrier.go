package hold

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Host acts on the connection that carries the holds of a Carrier. Its methods do not block and are
// safe for concurrent use.
type Host interface {
	// End ends the connection, because the hold of key was lost for that reason, or because its
	// owner has moved it to another connection (ReasonMoved). After it returns, nothing more of the
	// session is written to Redis or to the client.
	End(key []byte, reason string)
	// Watch says how closely to watch the client from now on.
	Watch(a Attention)
	// Push sends the client a frame, written as an array, after everything it was sent before. A
	// later End does not overtake the frame if the socket takes it at once. Push returns false, and
	// does nothing, if the client's protocol has no push frames; RESP3 has them. An empty frame
	// only asks.
	Push(frame []byte) bool
}

// Silence tells how long the client of a Carrier has been silent, for IDLE.
type Silence interface {
	// SilentSince is the time since when the client has sent nothing and is owed no answer. It is
	// zero while a command is in progress. It does not block and is safe for concurrent use.
	SilentSince() time.Time
}

// Attention is how closely a Host watches its client.
type Attention int

const (
	Relaxed Attention = iota // there are no holds and no waiters
	Guarded                  // there are some: send frequent keepalives (R29)
	// The command in progress begins to wait. The ctx of its Do must end when the client
	// disconnects.
	Waiting
)

// ReasonMoved is the reason for the end of a connection whose hold was moved to another one.
const ReasonMoved = "moved"

// Ending is how the end of a connection settles its holds.
type Ending int

const (
	// the client is done: release all holds but those with LEASE or ONCLOSE EXPIRE
	Release Ending = iota
	Expire         // the client may still be at work: let all holds expire
)

// Client says who uses a Carrier.
type Client struct {
	Name string // "addr:port name", for logs and LOCK.INFO
	User string // of Redis's ACL
}

// Carrier is a connection as its holds see it. It is safe for concurrent use.
type Carrier struct {
	Name     string       // "<leash uuid>:<id>.<n>"; n is used once
	Requests atomic.Int64 // number of the last request
	registry *Registry
	peer
	safeUntil atomic.Pointer[time.Time] // see SafeUntil; changed with mu held
	notifies  atomic.Bool               // LOCK.NOTIFY is on; changed with mu held

	// mu guards the fields below, and the states of the holds.
	mu     sync.Mutex
	holds  []uint32 // entry numbers, oldest first
	losses losses
	idle   idleCheck
	pushes pushes
	carrierEnd

	guards guards
}

// carrierEnd is how the connection has ended.
type carrierEnd struct {
	ended  bool
	how    Ending    // set with ended
	unsure time.Time // set with ended, see UnsureUntil
}

// peer is the other end of a Carrier's connection.
type peer struct {
	host    Host
	silence Silence
	client  atomic.Pointer[Client] // see Identify
}

// guards counts what makes a host watch its client.
type guards struct {
	// mu is held while Host.Watch is called, so that calls come in order. No other lock is taken
	// with it.
	mu sync.Mutex
	n  int
}

// Init makes the carrier of a connection. It must be called first. id names the connection in logs.
func (c *Carrier) Init(r *Registry, id int64, client Client, h Host, silence Silence) {
	c.Name = fmt.Sprintf("%s:%d.%d", r.Leash, id, r.carriers.Add(1))
	c.registry, c.host, c.silence = r, h, silence
	c.Identify(client)
}

// ClientID is the number of the connection, as Init got it.
func (c *Carrier) ClientID() int64 {
	number, _, _ := strings.Cut(strings.TrimPrefix(c.Name, c.registry.Leash+":"), ".")
	id, _ := strconv.ParseInt(number, 10, 64)
	return id
}

// Detached is an ended carrier with the same name, for holds that outlast their connection. It does
// not keep the connection in memory.
func (c *Carrier) Detached() *Carrier {
	d := &Carrier{registry: c.registry, Name: c.Name, carrierEnd: carrierEnd{ended: true, how: Expire}}
	d.client.Store(c.client.Load())
	d.Requests.Store(c.Requests.Load())
	return d
}

// Identify tells the carrier who uses it from now on. It does not block and is safe for concurrent
// use.
func (c *Carrier) Identify(client Client) { c.client.Store(&client) }

// Client says who uses the carrier.
func (c *Carrier) Client() Client { return *c.client.Load() }

// Attach makes holds that were just granted the carrier's, unless its client is gone: all or none
// (R19). id is that of their acquire, and until says when each is safe.
func (c *Carrier) Attach(ctx context.Context, holds []*Hold, id string, until []time.Time) bool {
	r := c.registry
	c.Guard(len(holds))
	c.mu.Lock()
	if c.ended || ctx.Err() != nil {
		c.mu.Unlock()
		c.Guard(-len(holds))
		return false
	}
	for i, h := range holds {
		h.applyLocked(attached, "")
		h.setLastIDLocked(id)
		h.since = r.now() // before a search can find h
		c.addHoldLocked(h)
		r.count(h, 1)
		h.startTimerLocked()
		c.watchIdleLocked(h)
		c.holdBackPushesLocked(h)
		h.keepLocked(until[i])
		r.index(h) // last, because from now on events about h are handled
	}
	c.mu.Unlock()
	return true
}

// Reacquire notes that an acquire with that ID has counted h once more, unless the client is gone
// or h is not held any more. h is safe until then. counts is false for a repetition of the last
// acquire.
func (c *Carrier) Reacquire(ctx context.Context, h *Hold, id string, counts bool, until time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || ctx.Err() != nil {
		return false
	}
	if _, ok := h.applyLocked(acquired, ""); !ok {
		return false
	}
	if counts {
		h.count = clampCount(int64(h.count) + 1)
	}
	h.setLastIDLocked(id)
	h.keepLocked(until)
	return true
}

// CanAnswer reports whether the client can still be told of a grant. Grant and disconnect are
// decided under the carrier's mutex (R19).
func (c *Carrier) CanAnswer(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ended && ctx.Err() == nil
}

// EndTimeout is how long End and AwaitEnd wait.
const EndTimeout = time.Second

// End settles the holds of a connection that is gone. Call End or EndUnsure once. It returns when
// Redis has answered each release, or after EndTimeout. What has no answer is repeated.
func (c *Carrier) End(how Ending) { c.end(how, time.Time{}) }

// EndUnsure is like End. Redis may still run a command of this connection, but not after until. Its
// holds expire. None is released for MAXHOLD before that time (R16).
func (c *Carrier) EndUnsure(until time.Time) { c.end(Expire, until) }

func (c *Carrier) end(how Ending, unsure time.Time) {
	c.mu.Lock()
	c.ended, c.how, c.unsure = true, how, unsure
	holds := c.holdsLocked()
	c.holds = nil
	changes := make([]Change, 0, len(holds))
	for _, h := range holds {
		if ch, ok := h.applyLocked(h.closingEventLocked(how), ""); ok {
			changes = append(changes, ch)
		}
	}
	c.stopPushesLocked()
	if c.idle.timer != nil {
		c.idle.timer.Stop()
	}
	c.mu.Unlock()
	if released := c.registry.follow(changes...); released != nil {
		c.registry.AwaitEnd(released)
	}
}

// UnsureUntil is until when Redis may still run a command of this connection, which has ended.
func (c *Carrier) UnsureUntil() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsure
}

// AwaitEnd waits until ended is closed, at most for EndTimeout. It reports whether it was.
func (r *Registry) AwaitEnd(ended <-chan struct{}) bool {
	timer := time.NewTimer(EndTimeout)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
	case <-r.Stopped:
	}
	return false
}

// Holds is the number of holds of the carrier.
func (c *Carrier) Holds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.holds)
}

// addHoldLocked appends h as the carrier's newest hold.
func (c *Carrier) addHoldLocked(h *Hold) {
	if len(c.holds) == cap(c.holds) { // grow by an eighth; append would double it
		c.holds = append(slices.Grow([]uint32(nil), len(c.holds)+len(c.holds)/8+1), c.holds...)
	}
	c.registry.register(h)
	c.holds = append(c.holds, h.entry)
}

func (c *Carrier) removeHoldLocked(h *Hold) {
	if i := slices.Index(c.holds, h.entry); i >= 0 {
		c.holds = slices.Delete(c.holds, i, i+1)
	}
}

// holdsLocked returns the carrier's holds, oldest first.
func (c *Carrier) holdsLocked() []*Hold { return c.registry.holdsAt(c.holds) }

// holdsNewestFirstLocked iterates over the holds, newest first. It is for callers that seldom need
// all.
func (c *Carrier) holdsNewestFirstLocked() iter.Seq[*Hold] {
	return func(yield func(*Hold) bool) {
		for i := len(c.holds) - 1; i >= 0; i-- {
			if !yield(c.registry.holdAt(c.holds[i])) {
				return
			}
		}
	}
}

// Guard counts holds and waiters, and tells the host of the first and the last one.
func (c *Carrier) Guard(delta int) {
	g := &c.guards
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.n
	g.n += delta
	switch {
	case before == 0 && g.n > 0:
		c.host.Watch(Guarded)
	case before > 0 && g.n == 0:
		c.host.Watch(Relaxed)
	}
}

// GuardWait is Guard for a command that begins to wait.
func (c *Carrier) GuardWait() {
	c.host.Watch(Waiting)
	c.Guard(1)
}
