package console

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"leash/lockcmd/view"
)

// Sizes of what is kept of events.
const (
	keptEvents   = 500  // of losses, and as many of the others
	queuedEvents = 256  // losses that wait for one reader, and as many others
	maxKeptKey   = 1024 // bytes; of longer keys the start is kept
	lockEvents   = 50   // that a lock's page shows
)

// lockEvent is something that happened to a hold, in JSON.
type lockEvent struct {
	Number int64  `json:"number"` // rises with each event
	At     int64  `json:"at_ms"`  // since 1970
	Kind   string `json:"kind"`
	Key    string `json:"key"`
	Link   string `json:"link"`
	DB     int    `json:"db"`
	Mode   string `json:"mode"`
	Owner  string `json:"owner"`
	Token  int64  `json:"token"`
	Client string `json:"client"`
	Held   int64  `json:"held_ms"`
	Reason string `json:"reason"`
}

// change is a change with its number and its time.
type change struct {
	view.Change
	number int64
	at     time.Time
}

// feed keeps the last changes of holds and gives them to streams. It is a view.Observer. A
// reader that is too slow misses some and is told how many.
type feed struct {
	readers atomic.Int32

	// mu guards the fields below. Nothing is written to a network with it.
	mu      sync.Mutex
	last    int64
	losses  ring
	others  ring
	streams map[*stream]struct{}
	closed  chan struct{} // closed by close
	ended   bool
}

func newFeed() *feed {
	return &feed{streams: make(map[*stream]struct{}), closed: make(chan struct{})}
}

// stream has the queues of one reader. Losses have their own, so that many grants cannot push them
// out.
type stream struct {
	losses, others chan change
	missed         atomic.Int64 // changes that were pushed out
}

// add appends a change to its queue. If that is full, the oldest one makes room. The caller holds
// feed.mu, so nobody else appends.
func (s *stream) add(c change) {
	queue := s.others
	if c.Kind == view.Lost {
		queue = s.losses
	}
	for {
		select {
		case queue <- c:
			return
		default:
		}
		select {
		case <-queue:
			s.missed.Add(1)
		default: // the reader has just taken it
		}
	}
}

// Watches implements view.Observer.
func (f *feed) Watches() bool { return f.readers.Load() > 0 }

// Observe implements view.Observer.
func (f *feed) Observe(c view.Change) {
	if len(c.Key) > maxKeptKey { // keep no large key in memory
		c.Key, c.Owner = strings.Clone(c.Key[:maxKeptKey]), strings.Clone(c.Owner)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	kept := change{c, f.last, time.Now()}
	if c.Kind == view.Lost {
		f.losses.add(kept)
	} else {
		f.others.add(kept)
	}
	for s := range f.streams {
		s.add(kept)
	}
}

// open adds a stream. It returns nil if there are too many, or after close. recent are the changes
// before it.
func (f *feed) open() (s *stream, recent []change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || len(f.streams) >= maxStreams {
		return nil, nil
	}
	s = &stream{losses: make(chan change, queuedEvents), others: make(chan change, queuedEvents)}
	f.streams[s] = struct{}{}
	f.readers.Add(1)
	return s, f.recentLocked(func(change) bool { return true }, queuedEvents)
}

func (f *feed) leave(s *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, s)
	f.readers.Add(-1)
}

func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.ended = true
		close(f.closed)
	}
}

// ofLock returns the last events of a lock, the newest last.
func (f *feed) ofLock(db int, key string) []lockEvent {
	key = key[:min(len(key), maxKeptKey)]
	f.mu.Lock()
	found := f.recentLocked(func(c change) bool { return c.DB == db && c.Key == key }, lockEvents)
	f.mu.Unlock()
	return eventsOf(found)
}

// recentLocked returns the newest changes that fit, oldest first.
func (f *feed) recentLocked(fits func(change) bool, most int) (found []change) {
	a, b := f.losses.list(), f.others.list()
	for len(a)+len(b) > 0 {
		next := &a
		if len(a) == 0 || len(b) > 0 && b[0].number < a[0].number {
			next = &b
		}
		if c := (*next)[0]; fits(c) {
			found = append(found, c)
		}
		*next = (*next)[1:]
	}
	return found[max(len(found)-most, 0):]
}

func eventsOf(changes []change) []lockEvent {
	events := make([]lockEvent, 0, len(changes))
	for _, c := range changes {
		link := linkOf(c.DB, c.Key)
		if len(c.Key) == maxKeptKey { // it may be longer
			link = ""
		}
		events = append(events, lockEvent{
			Number: c.number, At: c.at.UnixMilli(), Kind: string(c.Kind), Key: shown(c.Key), Link: link, DB: c.DB,
			Mode: c.Mode, Owner: shown(c.Owner), Token: c.Token, Client: shown(c.Client.Name),
			Held: c.Held.Milliseconds(), Reason: c.Reason,
		})
	}
	return events
}

// ring has the last changes. It takes memory only as it fills.
type ring struct {
	changes []change
	oldest  int // once it is full
}

func (r *ring) add(c change) {
	if len(r.changes) < keptEvents {
		r.changes = append(r.changes, c)
		return
	}
	r.changes[r.oldest] = c
	r.oldest = (r.oldest + 1) % keptEvents
}

// list returns a copy, oldest first.
func (r *ring) list() []change {
	list := make([]change, 0, len(r.changes))
	return append(append(list, r.changes[r.oldest:]...), r.changes[:r.oldest]...)
}
