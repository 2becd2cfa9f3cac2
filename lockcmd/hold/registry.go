package hold

import (
	"log/slog"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/histogram"
	"leash/lockcmd/event"
	"leash/lockcmd/script"
	"leash/renewal"
)

// MinTTL is the shortest TTL of a renewed hold. Three renewals must fit in it.
const MinTTL = 100 * time.Millisecond

// Service does what follows from changes of holds and needs Redis or other Leashes. Its methods do
// not block. They are called without a mutex held.
type Service interface {
	// Lost is told of a loss, after the owner was.
	Lost(h *Hold, reason string)
	// Follow is told of changes, after the owners were told of losses. Changes of more than one
	// hold are of one carrier. released is closed when the releases that Follow starts have ended;
	// nil if there are none.
	Follow(changes []Change) (released <-chan struct{})
	// Spawn runs f. It returns false when this Leash has stopped.
	Spawn(f func()) bool
}

// Config is what a Registry needs.
type Config struct {
	Leash    string        // uuid of this Leash
	TTL      time.Duration // of a hold without LEASE and TTL
	Cluster  bool          // renewals go by slot
	Watchdog *renewal.Watchdog
	Service  Service
	// Count is told how many holds of a lock's name begin, or end if n is negative. It does not
	// block. nil: nobody is told.
	Count   func(key string, n int64)
	Log     *slog.Logger    // of panics
	Stopped <-chan struct{} // closed when this Leash stops
}

// Registry has all holds of one Leash: those of its carriers, and some that have just ended. It is
// safe for concurrent use. Its mutex may be taken after a carrier's.
type Registry struct {
	Config
	Ends  event.Ends // how the last holds ended, for those who ask late
	Stats Stats

	began     time.Time
	owners    atomic.Int64 // number of the last generated owner
	carriers  atomic.Int64 // number of the last carrier
	notifying atomic.Int64 // carriers with LOCK.NOTIFY on

	mu    sync.Mutex
	holds *index // guarded by mu
}

// Stats are the figures about holds.
type Stats struct {
	Holds Counts
	Times histogram.Histogram // of holds that have ended, from the grant on
}

// NewRegistry makes a Registry without holds.
func NewRegistry(cfg Config) *Registry {
	return &Registry{Config: cfg, began: time.Now(), holds: newIndex()}
}

// count counts holds like h that begin, or that end if n is negative.
func (r *Registry) count(h *Hold, n int64) {
	r.Stats.Holds.add(h.kind, n)
	if r.Count != nil {
		r.Count(h.Key(), n)
	}
}

// now is the time since the Registry was made, in ms.
func (r *Registry) now() int64 { return time.Since(r.began).Milliseconds() }

// Notifying reports whether a carrier has LOCK.NOTIFY on.
func (r *Registry) Notifying() bool { return r.notifying.Load() > 0 }

// NewOwners draws the numbers of n generated owners and returns the first.
func (r *Registry) NewOwners(n int64) (first int64) { return r.owners.Add(n) - n + 1 }

// OwnerName is the name of a generated owner.
func (r *Registry) OwnerName(n int64) string {
	var name [64]byte
	return string(r.appendOwnerName(name[:0], n))
}

// NewID returns an id for a request that nobody else has.
func (r *Registry) NewID() string { return r.OwnerName(r.NewOwners(1)) }

func (r *Registry) appendOwnerName(dst []byte, n int64) []byte {
	return strconv.AppendInt(append(append(dst, r.Leash...), ':'), n, 10)
}

// Find returns the newest present hold of the lock for which match is true, or nil. match must not
// block and take no locks.
func (r *Registry) Find(lock script.Lock, match func(*Hold) bool) (found *Hold) {
	found, _ = r.findAmong(lock.Key, math.MaxInt, func(h *Hold) bool { return h.Lock() == lock && match(h) })
	return found
}

// FindRef returns the present hold that ref names, or nil.
func (r *Registry) FindRef(ref script.Ref) *Hold {
	return r.Find(ref.Lock, func(h *Hold) bool { return h.Token == ref.Token && h.Carrier.Name == ref.Carrier })
}

// FindEvent returns the present hold that an event is about, or nil. Events do not name the
// database.
func (r *Registry) FindEvent(e event.Event) (found *Hold) {
	found, _ = r.findAmong(e.Key, math.MaxInt, func(h *Hold) bool {
		return h.Token == e.Token && h.Carrier.Name == e.Carrier
	})
	return found
}

// findAmong returns the newest of at most that many holds of key for which match is true, or nil.
// ok is false when it found none and there are more holds.
func (r *Registry) findAmong(key string, most int, match func(*Hold) bool) (found *Hold, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.holds.of(key) {
		if most--; most < 0 {
			return nil, false
		}
		if match(h) {
			return h, true
		}
	}
	return nil, true
}

// OfLock returns the holds of a lock, newest first.
func (r *Registry) OfLock(lock script.Lock) (holds []*Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.holds.of(lock.Key) {
		if h.Lock() == lock {
			holds = append(holds, h)
		}
	}
	return holds
}

// Part copies holds with entries above after to into, in the order of their entries. It returns how
// many there are, and the last entry that it looked at; more is false at the end of the table. The
// mutex is held for len(into) entries.
func (r *Registry) Part(after uint32, into []*Hold) (n int, last uint32, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.holds.table.Last()
	for last = after; last < end && last-after < uint32(len(into)); {
		last++
		if h := r.holds.table.At(last); h != nil {
			into[n] = h
			n++
		}
	}
	return n, last, last < end
}

func (r *Registry) index(h *Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds.add(h)
}

// unindex removes h, which no carrier has any more. Another hold may get its entry from now on.
func (r *Registry) unindex(h *Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holds.table.At(h.entry) == h {
		r.holds.remove(h)
		r.holds.table.Remove(h.entry)
	}
}

// register gives h an entry.
func (r *Registry) register(h *Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.entry = r.holds.table.Add(h)
}

// holdAt is the hold with that entry.
func (r *Registry) holdAt(entry uint32) *Hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds.table.At(entry)
}

// holdsAt are the holds with those entries.
func (r *Registry) holdsAt(entries []uint32) (holds []*Hold) {
	holds = make([]*Hold, len(entries))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, n := range entries {
		holds[i] = r.holds.table.At(n)
	}
	return holds
}

// Counts are the present holds by their mode.
type Counts struct {
	modes [len(script.Modes) + 1]atomic.Int64
} // the last one is for permits

// add counts n more holds of a mode.
func (c *Counts) add(kind uint8, n int64) { c.modes[min(int(kind), len(script.Modes))].Add(n) }

// Load is the number of all holds.
func (c *Counts) Load() (n int64) {
	for i := range c.modes {
		n += c.modes[i].Load()
	}
	return n
}

// ByName gives the numbers by the names of the modes.
func (c *Counts) ByName() map[string]int64 {
	counts := map[string]int64{script.Permit.Name: c.modes[len(script.Modes)].Load()}
	for i, m := range script.Modes {
		counts[m.Name] = c.modes[i].Load()
	}
	return counts
}
