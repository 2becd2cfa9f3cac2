// Package slowlog keeps the last slow commands of one Leash, for LEASH SLOWLOG. Redis has a slow
// log of its own, with the time of its own work. Here is also the time that a command waits in
// Leash, in the network and for a lock.
package slowlog

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Entry is a slow command.
type Entry struct {
	ID     int64 // set by Add
	At     time.Time
	Queued time.Duration // from the arrival of the command until it was sent to Redis
	Redis  time.Duration // from then on until the end of the reply
	Waited time.Duration // for a lock, a permit or a latch
	Node   string        // address; empty for a command of Leash
	Args   []string      // see Arguments
	Client string        // "addr:port name"
	User   string        // of Redis's ACL
}

// Log keeps the last slow commands. Make it with New. It is safe for concurrent use.
type Log struct {
	slowerThan atomic.Int64 // in ns

	// mu guards the fields below.
	mu      sync.Mutex
	max     int
	lastID  int64
	entries []Entry // oldest first
}

// New makes a log, see Set.
func New(slowerThan time.Duration, max int) *Log {
	l := new(Log)
	l.Set(slowerThan, max)
	return l
}

// Set changes from which time on a command is slow, and how many are kept. With a negative time,
// none is slow.
func (l *Log) Set(slowerThan time.Duration, max int) {
	if slowerThan < 0 {
		slowerThan = 1<<63 - 1
	}
	l.slowerThan.Store(int64(slowerThan))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max = max
	l.trimLocked()
}

// IsSlow reports whether a command that took so long is kept.
func (l *Log) IsSlow(took time.Duration) bool { return int64(took) >= l.slowerThan.Load() }

// Add adds an entry, and drops the oldest one if there are too many.
func (l *Log) Add(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = l.lastID
	l.lastID++
	l.entries = append(l.entries, e)
	l.trimLocked()
}

func (l *Log) trimLocked() {
	if n := len(l.entries) - l.max; n > 0 {
		clear(l.entries[:n])
		l.entries = l.entries[n:] // append moves the rest now and then
	}
}

// Newest returns up to n entries, the newest first.
func (l *Log) Newest(n int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.entries[len(l.entries)-min(n, len(l.entries)):])
	slices.Reverse(all)
	return all
}

// Len returns the number of entries.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Reset removes all entries. The next one gets the next ID.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// Listed is the number of entries that a client gets who asks for no other number.
const Listed = 10
