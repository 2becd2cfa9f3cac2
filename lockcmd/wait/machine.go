package wait

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"leash/internal/histogram"
	"leash/lockcmd/event"
	"leash/lockcmd/script"
)

// Interval is the default of Config.Interval.
const Interval = time.Second

// blockSlack is how much longer than BLOCK an attempt, or a release that may grant the lock, may
// take when it is in progress at the end of BLOCK.
const blockSlack = time.Second

// Redis is what waiting asks of Redis. *script.Client implements it.
type Redis interface {
	// LeaveTurns takes an entry out of the list of turns. It blocks until the given time at most.
	LeaveTurns(lock script.Lock, m *script.Mode, entry, event string, until time.Time)
	// Dequeue takes owners that gave up out of the queue of a FAIR lock. It blocks until Redis
	// answers, or until the given time.
	Dequeue(lock script.Lock, owners []string, until time.Time) error
	// RoundTrip is about how long a call takes.
	RoundTrip() time.Duration
	// Sleep waits for d. It returns false when ctx ends or this Leash stops first.
	Sleep(ctx context.Context, d time.Duration) bool
}

// Tasks runs goroutines that outlive a wait.
type Tasks interface {
	// Spawn runs f. It returns false when this Leash has stopped. It does not block.
	Spawn(f func()) bool
}

// Holders are told that somebody waits for their lock (LOCK.NOTIFY).
type Holders interface {
	// TellHere tells the holders on this Leash. It does not block.
	TellHere(lock script.Lock)
	// TellOthers tells the holders on other Leashes with tokens above after. It reports whether
	// Redis says that the lock is held, and blocks until Redis answers.
	TellOthers(lock script.Lock, after int64) (held bool)
}

// Config is what a Machine needs. All fields must be set before the first wait.
type Config struct {
	Leash    string // uuid of this Leash
	Redis    Redis
	Channels *event.Subscriptions
	Tasks    Tasks
	Interval time.Duration // about the pause between two attempts of a waiter that nothing wakes
	Timeout  time.Duration // of one attempt
	Max      int           // commands that may wait; SetMax changes it

	FairTimeout time.Duration // after this time without an attempt a FAIR waiter is dead
}

// Stats are the figures about waiting.
type Stats struct {
	Waiters atomic.Int64        // commands that wait now
	Limited atomic.Int64        // commands that may not wait, because too many do
	Times   histogram.Histogram // of waits, until they ended
}

// Machine lets the commands of one Leash wait. It is safe for concurrent use.
type Machine[R Result] struct {
	Config
	Queues[R]
	Stats    Stats
	places   fairPlaces
	near     string // Entry while Redis is near
	draining atomic.Bool
	max      atomic.Int64 // instead of Config.Max
}

// New makes a Machine. It starts nothing.
func New[R Result](cfg Config) *Machine[R] {
	m := &Machine[R]{Config: cfg, near: newEntry(cfg.Leash, minReservation)}
	m.Queues.init()
	m.places.leaving = make(map[script.Lock][]*leaver)
	m.SetMax(cfg.Max)
	return m
}

// SetMax changes how many commands may wait. Those that wait already stay.
func (m *Machine[R]) SetMax(n int) { m.max.Store(int64(n)) }

// Begin counts a command as waiting. It fails when too many commands wait. Otherwise End must
// follow.
func (m *Machine[R]) Begin(c *Command) bool {
	if m.Stats.Waiters.Add(1) > m.max.Load() {
		m.Stats.Waiters.Add(-1)
		m.Stats.Limited.Add(1)
		return false
	}
	c.begin()
	return true
}

// End ends what Begin began. fails says that the command is to be answered with an error, see
// Command.Unblock. ended is false if the command does not wait.
func (m *Machine[R]) End(c *Command) (ended, fails bool) {
	w := c.end()
	if w == nil {
		return false, false
	}
	m.Stats.Waiters.Add(-1)
	m.Stats.Times.Observe(time.Since(w.began))
	return true, w.failed
}

// Drain ends all waits, and each later one at its first attempt. It does not block.
func (m *Machine[R]) Drain() {
	m.draining.Store(true)
	m.WakeAll()
}

// Draining reports whether Drain was called.
func (m *Machine[R]) Draining() bool { return m.draining.Load() }

// Deadline is when an attempt that begins now must be answered. end is the end of BLOCK; zero
// without one.
func (m *Machine[R]) Deadline(end time.Time) time.Time {
	return earlier(time.Now().Add(m.Timeout), end)
}

// earlier returns until, or an earlier time if BLOCK ends before.
func earlier(until, end time.Time) time.Time {
	if grace := end.Add(blockSlack); !end.IsZero() && grace.Before(until) {
		return grace
	}
	return until
}

// Pause is the pause until the next attempt of a waiter (R17). It is the interval, plus or minus a
// fifth, so that waiters of many Leashes do not ask at the same time. It is shorter when the
// holder's lease ends before, or when Redis takes no requests now.
func (m *Machine[R]) Pause(last Outcome) time.Duration {
	pause := time.Duration((0.8 + 0.4*rand.Float64()) * float64(m.Interval))
	if last.State == Busy {
		return pause / 10
	}
	if last.Left > 0 {
		pause = min(pause, last.Left+time.Millisecond)
	}
	return pause
}

// AwaitLeft waits until Redis has a waiter no more, or until the client is gone. Redis may be slow,
// so it waits at most blockSlack, and ends no later than that after the end of BLOCK.
func AwaitLeft(ctx context.Context, left <-chan struct{}, end time.Time) {
	timer := time.NewTimer(time.Until(earlier(time.Now().Add(blockSlack), end)))
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
	case <-ctx.Done():
	}
}
