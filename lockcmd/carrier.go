package lockcmd

import (
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"leash/lockcmd/script"
	"leash/lockcmd/wait"
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

// Carrier is a connection as the locks see it.
type Carrier struct {
	// Immutable.
	service *Service
	name    string // "<leash uuid>:<id>.<n>"; n is used once
	host    Host
	silence Silence

	client    atomic.Pointer[Client]     // see Identify
	db        int                        // database of the commands; owned by the caller of Do
	safeUntil atomic.Pointer[time.Time]  // see SafeUntil; changed with mu held
	requests  atomic.Int64               // number of the last request
	notifies  atomic.Bool                // LOCK.NOTIFY is on; changed with mu held
	waiting   wait.Command               // the current command, if it waits
	waitsFor  atomic.Pointer[WaiterView] // what it waits for, but the times; nil for nothing in a queue

	// mu guards the fields below, and the states of the holds.
	mu               sync.Mutex
	holds            []uint32         // entry numbers, oldest first
	pendingMoves     []*pendingMove   // holds that may be moving here
	unreportedLosses []unreportedLoss // losses to be reported to the client, in order
	closingLoss      *lossReport      // a loss of which the host is about to be told; nil for none
	ended            bool
	how              Ending // set with ended

	// For IDLE:
	idleTimer   *time.Timer // nil before the first hold with IDLE
	idleCheckAt time.Time   // when idleTimer fires; zero when it is not set

	// when the client was found idle, SilentSince at that time, for a second check
	silentSince time.Time

	// For LOCK.NOTIFY:
	answering     bool     // from the start of Do until its answer was sent
	unanswered    []*hold  // holds that the answer names or that are checked after it
	pendingPushes [][]byte // frames to push after the answer

	// guardMu is held while Host.Watch is called, so that calls come in order. No other lock is
	// taken with it.
	guardMu sync.Mutex
	guarded int
}

// Client says who uses a Carrier.
type Client struct {
	Name string // "addr:port name", for logs and LOCK.INFO
	User string // of Redis's ACL
}

// NewCarrier makes the carrier of a connection. id names the connection in logs. A connection may
// have several carriers in a row (RESET). Each has its own name, because each counts its requests
// from 1 and their holds must not be confused.
func (s *Service) NewCarrier(id int64, client Client, h Host, silence Silence) *Carrier {
	name := s.uuid + ":" + strconv.FormatInt(id, 10) + "." + strconv.FormatInt(s.carriers.Add(1), 10)
	c := &Carrier{service: s, name: name, host: h, silence: silence}
	c.Identify(client)
	return c
}

// Identify tells the carrier who uses it from now on. It does not block and is safe for concurrent
// use.
func (c *Carrier) Identify(client Client) { c.client.Store(&client) }

// Select sets the database for the locks of the carrier's next commands; it is 0 at first. Holds
// stay in their database. Do not call it during a Do.
func (c *Carrier) Select(db int) { c.db = db }

// id is the lock of key in the carrier's database.
func (c *Carrier) id(key string) script.Lock { return script.Lock{DB: c.db, Key: key} }

func (c *Carrier) clientName() string { return c.client.Load().Name }

// endTimeout is how long End waits for Redis.
const endTimeout = time.Second

// End settles the holds of a connection that is gone. Call End or EndUnsure once. It returns when
// Redis has answered each release, or after endTimeout. The Service goes on to repeat what has no
// answer.
func (c *Carrier) End(how Ending) { c.end(how, time.Time{}) }

// EndUnsure is like End. Redis may still run a command of this connection, but not after until. Its
// holds expire. None is released for MAXHOLD before that time (R16).
func (c *Carrier) EndUnsure(until time.Time) { c.end(Expire, until) }

func (c *Carrier) end(how Ending, unsure time.Time) {
	c.mu.Lock()
	c.ended, c.how = true, how
	holds := c.holdsLocked()
	c.holds = nil
	changes := make([]change, 0, len(holds))
	for _, h := range holds {
		if ch, ok := h.applyLocked(h.closingEventLocked(how), ""); ok {
			changes = append(changes, ch)
		}
	}
	c.stopPushesLocked()
	c.stopIdleTimerLocked()
	c.mu.Unlock()
	released := c.service.follow(unsure, changes...)
	if released == nil {
		return
	}
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-released:
	case <-timer.C:
	case <-c.service.redis.Stopped:
	}
}

// Holds is the number of holds of the carrier.
func (c *Carrier) Holds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.holds)
}

// newest returns the carrier's newest hold of the lock for which match is true, or nil. It searches
// the holds of the key or of the connection, whichever are fewer: a connection may have 100,000
// holds, and a semaphore as many permits. It calls match with the mutexes of both held.
func (c *Carrier) newest(lock script.Lock, match func(*hold) bool) *hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := func(h *hold) bool { return h.carrier == c && h.state != over && h.lock() == lock && match(h) }
	if h, ok := c.service.findAmong(lock.Key, len(c.holds), own); ok {
		return h
	}
	for h := range c.holdsNewestFirstLocked() {
		if own(h) {
			return h
		}
	}
	return nil
}

// newestLive is newest, but prefers a hold whose lease is not over.
func (c *Carrier) newestLive(lock script.Lock, match func(*hold) bool) *hold {
	if h := c.newest(lock, func(h *hold) bool { return match(h) && !h.leaseOverLocked() }); h != nil {
		return h
	}
	return c.newest(lock, match)
}

// addHoldLocked appends h as the carrier's newest hold.
func (c *Carrier) addHoldLocked(h *hold) {
	if len(c.holds) == cap(c.holds) { // grow by an eighth; append would double it
		c.holds = append(slices.Grow([]uint32(nil), len(c.holds)+len(c.holds)/8+1), c.holds...)
	}
	c.service.register(h)
	c.holds = append(c.holds, h.entry)
}

func (c *Carrier) removeHoldLocked(h *hold) { c.holds = without(c.holds, h.entry) }

// holdsLocked returns the carrier's holds, oldest first.
func (c *Carrier) holdsLocked() []*hold { return c.service.holdsAt(c.holds) }

// holdsNewestFirstLocked iterates over the holds, newest first. It is for callers that seldom need
// all.
func (c *Carrier) holdsNewestFirstLocked() iter.Seq[*hold] {
	return func(yield func(*hold) bool) {
		for i := len(c.holds) - 1; i >= 0; i-- {
			if !yield(c.service.holdAt(c.holds[i])) {
				return
			}
		}
	}
}

// guard counts holds and waiters, and tells the host of the first and the last one.
func (c *Carrier) guard(delta int) {
	c.guardMu.Lock()
	defer c.guardMu.Unlock()
	before := c.guarded
	c.guarded += delta
	switch {
	case before == 0 && c.guarded > 0:
		c.host.Watch(Guarded)
	case before > 0 && c.guarded == 0:
		c.host.Watch(Relaxed)
	}
}
