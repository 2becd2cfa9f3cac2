package lockcmd

import (
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Host is the connection that a carrier's holds hang on. Its methods do not block and are safe for
// concurrent use.
type Host interface {
	// Lost says that the hold of key has ended against its owner's will, and ends the connection.
	// On return nothing more of the session is written to Redis or to the client.
	Lost(key []byte, reason string)
	// Moved says that the hold of key hangs on another connection now, at its owner's wish, and
	// ends this one. The same holds on return.
	Moved(key []byte)
	// Guard asks for tight keepalives: on with the first hold or waiter, off when the last one is
	// gone (R29).
	Guard(on bool)
	// Wait says that the command in progress begins to wait: Do calls it itself. From now on its
	// ctx must end when the client disconnects.
	Wait()
	// Pushes reports whether the client's protocol has frames that answer no command, as RESP3 has.
	Pushes() bool
	// Push gives the client such a frame, written as an array, behind what it has been given. It is
	// dropped if the protocol has none. A Lost or Moved behind it does not overtake it, as far as
	// the socket takes it at once.
	Push(frame []byte)
	// SilentSince is since when nothing has come from the client and no answer is owed to it; zero while
	// a command of its is under way.
	SilentSince() time.Time
	// Client is "addr:port name", for people.
	Client() string
}

// Ending is how a connection's end settles its holds.
type Ending int

const (
	// the client is done: they are ended, but those with LEASE or ONCLOSE EXPIRE stay for their
	// lease
	Release Ending = iota
	Expire         // the client may still be at work: they are left to run out
)

// Carrier is a connection as the locks see it.
type Carrier struct {
	// Immutable.
	service *Service
	name    string // "<leash uuid>:<id>.<n>"; n is never used again
	host    Host

	db        int                       // of the commands; belongs to whoever calls Do
	safeUntil atomic.Pointer[time.Time] // see Until; changed with mu held
	requests  atomic.Int64              // the last request's number
	notifies  atomic.Bool               // LOCK.NOTIFY is on; changed with mu held

	// mu guards the fields below, and the states of the holds.
	mu               sync.Mutex
	holds            []uint32         // by their entries, oldest first
	pendingMoves     []*pendingMove   // what of them is on its way here
	unreportedLosses []unreportedLoss // losses that the client has not been told of yet, in their order
	ended            bool
	how              Ending       // once ended
	commandWait      *commandWait // the wait of the command under way; nil while it does not wait

	// With IDLE.
	idleTimer   *time.Timer // nil before the first hold with it
	idleCheckAt time.Time   // when the idler is over; zero when it is not set

	// since when a client is silent that was found idle, and is looked at once more
	silentSince time.Time

	// With LOCK.NOTIFY.
	answering     bool     // a Do is under way, or its answer is
	unanswered    []*hold  // those that the answer tells of, or that are to be looked at behind it
	pendingPushes [][]byte // notices to be pushed behind it

	// guardMu is held while Host.Guard is called, so that on and off come in order. Taken alone.
	guardMu sync.Mutex
	guarded int
}

// NewCarrier makes the carrier of a connection. id names the connection to people. A connection may
// have several carriers, one after the other (RESET): their names differ, for each counts its
// requests from 1, and what is left of one must not be taken for the next one's.
func (s *Service) NewCarrier(id int64, h Host) *Carrier {
	name := s.uuid + ":" + strconv.FormatInt(id, 10) + "." + strconv.FormatInt(s.carriers.Add(1), 10)
	return &Carrier{service: s, name: name, host: h}
}

// endTimeout is how long End waits for Redis.
const endTimeout = time.Second

// End settles the holds of a connection that is gone. Call it, or EndUnsure, once. It returns when
// Redis has answered each release, or after endPatience: what must be repeated then goes on in the
// Service.
func (c *Carrier) End(how Ending) { c.end(how, time.Time{}) }

// EndUnsure is End for a connection of which Redis may still execute a command, until then at the
// latest: its holds are left to run out, and no sooner are they released because their MAXHOLD is
// over (R16).
func (c *Carrier) EndUnsure(until time.Time) { c.end(Expire, until) }

func (c *Carrier) end(how Ending, unsure time.Time) {
	c.mu.Lock()
	c.ended, c.how = true, how
	var forget, release []*hold
	for _, h := range c.holdsLocked() {
		switch {
		case h.state == releasing: // whoever releases it does the rest
		case h.state == decrementing && h.endsWithLocked(how):
			h.state = releasing
		case h.endsWithLocked(how):
			h.state = releasing
			release = append(release, h)
		default:
			h.state = over
			forget = append(forget, h)
		}
	}
	c.holds = nil
	c.muteLocked()
	c.stopIdleTimerLocked()
	c.mu.Unlock()
	for _, h := range forget {
		h.reportLeft()
		h.unregister()
	}
	c.service.limits.add(c, forget, unsure)
	if len(release) == 0 {
		return
	}
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-c.service.endAll(release):
	case <-timer.C:
	case <-c.service.stop:
	}
}

// Holds is how many holds hang on the carrier.
func (c *Carrier) Holds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.holds)
}

// newest is the carrier's newest hold of the lock for which match says yes, nil when there is none.
// A connection may have 100,000 holds, and a semaphore as many permits: the holds of the key are
// looked through, or the connection's if they are fewer. match is called with the mutexes of both.
func (c *Carrier) newest(lock lockID, match func(*hold) bool) *hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := func(h *hold) bool { return h.carrier == c && h.state != over && h.lock() == lock && match(h) }
	if h, ok := c.service.findAmong(lock.key, len(c.holds), own); ok {
		return h
	}
	for h := range c.holdsNewestFirstLocked() {
		if own(h) {
			return h
		}
	}
	return nil
}

// newestLive is the newest one whose lease is not spent, if there is one.
func (c *Carrier) newestLive(lock lockID, match func(*hold) bool) *hold {
	if h := c.newest(lock, func(h *hold) bool { return match(h) && !h.leaseOverLocked() }); h != nil {
		return h
	}
	return c.newest(lock, match)
}

// addHoldLocked makes h the newest of the carrier's holds.
func (c *Carrier) addHoldLocked(h *hold) {
	if len(c.holds) == cap(c.holds) { // an eighth to spare: append would have up to as much again
		c.holds = append(slices.Grow([]uint32(nil), len(c.holds)+len(c.holds)/8+1), c.holds...)
	}
	c.service.register(h)
	c.holds = append(c.holds, h.entry)
}

func (c *Carrier) removeHoldLocked(h *hold) { c.holds = without(c.holds, h.entry) }

// holdsLocked are the carrier's holds, oldest first.
func (c *Carrier) holdsLocked() []*hold { return c.service.holdsAt(c.holds) }

// holdsNewestFirstLocked are the same, newest first and one by one, for those who seldom look at all of
// them.
func (c *Carrier) holdsNewestFirstLocked() iter.Seq[*hold] {
	return func(yield func(*hold) bool) {
		for i := len(c.holds) - 1; i >= 0; i-- {
			if !yield(c.service.holdAt(c.holds[i])) {
				return
			}
		}
	}
}

// guard counts holds and waiters and keeps the host's guard as it must be.
func (c *Carrier) guard(delta int) {
	c.guardMu.Lock()
	defer c.guardMu.Unlock()
	before := c.guarded
	c.guarded += delta
	if (before == 0) != (c.guarded == 0) {
		c.host.Guard(c.guarded > 0)
	}
}
