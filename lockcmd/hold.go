package lockcmd

import (
	"time"

	"leash/renewal"
)

// hold is a lock that somebody has through this Leash.
type hold struct {
	// Immutable.
	carrier *Carrier
	mode    *mode
	id      lockID
	slot    int
	owner   string
	named   bool // the owner was given by the client
	token   int64

	watch renewal.Hold

	// gate is held by whoever has a request about the hold under way, so that requests reach Redis in the order of their
	// numbers. A channel, for it may be held for long and be waited for with a time limit.
	gate chan struct{}

	// Guarded by carrier.mu.
	state   state
	count   int64         // its acquires, as far as this Leash knows
	last    string        // the ID of the last acquire
	later   bool          // a release waits for the gate
	vigils  []vigil       // who waits on this Leash for its end
	watched bool          // somebody on another Leash does
	missed  bool          // the watchdog has not found it while it was lessening: whoever releases the count says why
	evicted bool          // it was told as lost, and is to be ended whatever else is under way about it
	young   bool          // its owner has not been answered yet (LOCK.NOTIFY)
	wanted  bool          // its owner was told that somebody waits for it
	limit   time.Time     // of MAXHOLD; zero without
	timer   *time.Timer   // for limit; nil without
	ttl     time.Duration // of the renewal, or the lease
	bundle  *bundle       // it is in with others; nil when it stands for itself
	terms                 // only lease ever changes
}

type state int

const (
	granting state = iota // nobody knows of it yet
	held
	lessening // a release of one of its counts is under way; the rest is kept
	releasing // a release is under way: what the watchdog finds out now is no news
	over
)

// open takes the gate, but waits no longer than until.
func (h *hold) open(until time.Time) bool {
	s := h.carrier.service
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for stop := s.stop; ; {
		select {
		case h.gate <- struct{}{}:
			return true
		case <-timer.C:
			return false
		case <-stop:
			stop = nil
			timer.Reset(time.Until(s.within(until)))
		}
	}
}

func (h *hold) close() { <-h.gate }

// plan is how the watchdog is to keep h. A lease is looked at as often as others are renewed, if it lasts as long.
func (h *hold) plan(until time.Time) renewal.Plan {
	p := renewal.Plan{DB: h.id.db, Kind: h.mode.id, Slot: h.slot, TTL: h.ttl, Lease: h.lease, Until: until}
	if p.Lease {
		p.TTL = min(h.ttl, h.carrier.service.cfg.WatchdogTimeout)
	}
	if h.mode == read {
		p.Every = readPace
	}
	if !h.carrier.service.cluster {
		p.Slot &^= 0xff // one node: few full requests rather than many small ones
	}
	return p
}

// readPace is how often the lock of a READ hold is looked after, at least. The renewal of a Java reader of it sets the lock's TTL plainly, to 30 s
// if it is left as it comes, and after its last one the reader may be gone.
const readPace = 10 * time.Second

// sees lets the watchdog look after the lock of a READ hold more often when less was left of it than our renewals leave: at least three
// times within that (R12). When nobody shortens it any more, the looks become rarer step by step. Steps of two keep holds together.
func (h *hold) sees(left time.Duration, b renewal.Batch) {
	usual := min(readPace, b.TTL/3)
	pace := min(2*b.Every, usual)
	if left < b.TTL/2 {
		for pace = usual; pace > max(left/3, MinTTL/3); {
			pace /= 2
		}
	}
	h.carrier.service.watchdog.Pace(&h.watch, pace)
}

// settle moves h to a new state, if it is in one of from.
func (h *hold) settle(to state, from ...state) bool {
	c := h.carrier
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range from {
		if h.state != f {
			continue
		}
		h.state = to
		if to == over {
			c.dropLocked(h)
		}
		return true
	}
	return false
}

func (h *hold) is(s state) bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.state == s
}

// endsWithLocked reports whether the hold is to be released when its connection ends in that way (R28). One that its owner does not know
// of is, in any case.
func (h *hold) endsWithLocked(how Ending) bool {
	return h.bundle.hidesLocked(h) || how == Release && !h.lease && !h.stays
}

// ended reports whether nobody needs to be told of h any more: its connection is gone, or knows that it was lost.
func (h *hold) ended() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.carrier.ended || h.evicted
}

// lessen counts a release of which counts remain. One that puts an acquire back names its ID, as a record has it.
func (h *hold) lessen(back string) {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.count = max(h.count-1, 1)
	if recordID(h.last) == back {
		h.last = ""
	}
}

func (h *hold) noLater() {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.later = false
}

// forget ends h for this Leash, whatever is in Redis. It reports whether it did.
func (h *hold) forget(from ...state) bool {
	if !h.settle(over, from...) {
		return false
	}
	h.gone()
	return true
}

// gone takes h, which is over, out of the books.
func (h *hold) gone() {
	s := h.carrier.service
	h.stopTimer()
	h.tellEnd("")
	s.watchdog.Remove(&h.watch)
	s.unindex(h)
	s.stats.holds.Add(-1)
	h.carrier.guard(-1)
}

// Lost implements renewal.Keeper: the owner is told before anybody else can get the lock (R27).
func (h *hold) Lost(reason string) {
	if reason == renewal.ReasonGone && h.misses() {
		return
	}
	if _, ok := h.lose(over, reason); ok {
		h.gone()
		return
	}
	h.forget(releasing)
}

// misses reports whether h is not there while a release of one of its counts is under way. That may have been the last count, if others were
// released by another way: whether it is a loss the answer will tell.
func (h *hold) misses() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.missed = h.missed || h.state == lessening
	return h.state == lessening
}

func (h *hold) wasMissed() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.missed
}

// recount lowers the count of h to that in Redis: another Leash says that it has released some.
func (h *hold) recount() {
	s := h.carrier.service
	if !h.open(s.deadline()) {
		return
	}
	defer h.close()
	l, err := s.inspect(h.id, s.deadline())
	f, ok := l.find(options{token: h.token})
	if err != nil || !ok || f.record.carrier != h.carrier.name {
		return
	}
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.count = max(min(h.count, f.count), 1)
}

// Ended implements renewal.Keeper: another way of the owner's has ended or moved the hold, or its lease is over. The connection that
// carried a hold which was moved on purpose is closed, if it is still there (R25).
func (h *hold) Ended(how renewal.Outcome) {
	there := !h.ended()
	if how == renewal.Moved || how == renewal.Repeated {
		h.tellEnd(movedText)
	}
	if !h.forget(held, lessening, releasing) || !there || how != renewal.Moved && how != renewal.Repeated {
		return
	}
	h.say(grantedNotice, h.token)
	if how == renewal.Moved {
		h.carrier.host.Moved([]byte(h.id.key))
	}
}
