package lockcmd

import (
	"math"
	"time"

	"leash/renewal"
)

// hold is a lock that somebody has through this Leash. There may be a million of them, so what only
// few have is in extra, and what follows from something else is not kept at all.
type hold struct {
	// Immutable.
	carrier *Carrier
	naming
	token int64
	db    int32
	kind  uint8 // its mode's id

	entry uint32 // its number in the index, from when it is its carrier's until it is gone

	watch renewal.Hold

	// Guarded by carrier.mu.
	extra  *extra
	ttl    time.Duration // of the renewal, or the lease
	count  int32         // its acquires, as far as this Leash knows
	state  state
	manner      // only lease ever changes
	busy   bool // the gate is taken
	later  bool // a release waits for the gate
	afar   afar // who waits for its end on other Leashes
	// the watchdog has not found it while it was lessening: whoever releases the count says why
	missed  bool
	evicted bool // it was told as lost, and is to be ended whatever else is under way about it
	young   bool // its owner has not been answered yet (LOCK.NOTIFY)
	wanted  bool // its owner was told that somebody waits for it
}

// extra is what only few holds have.
type extra struct {
	last   string          // the ID of the last acquire
	line   []chan struct{} // who waits for the gate; closed when it is theirs
	vigils []vigil         // who waits on this Leash for the end
	max    time.Duration   // MAXHOLD; zero without
	limit  time.Time       // when that is over, once it has begun to count
	timer  *time.Timer     // for limit
	idle   time.Duration   // IDLE; zero without
	lapsed bool            // it is over
	moves  int64           // how often it was moved to another carrier
	doubt  time.Time       // until then a request that puts it back on a new master may still come
	bundle *bundle         // the hold is in with others; nil when it stands for itself
	// of how many grants in a row it is the last that releases of this Leash made within; 0 when
	// the lock was free
	handed int
}

// rare is what h has of extra, to be read. carrier.mu is held.
func (h *hold) rare() extra {
	if h.extra == nil {
		return extra{}
	}
	return *h.extra
}

// more is extra, to be written to. carrier.mu is held, or nobody else knows h yet.
func (h *hold) more() *extra {
	if h.extra == nil {
		h.extra = &extra{}
	}
	return h.extra
}

func (h *hold) mode() *mode { return modeOf(h.kind) }

func (h *hold) lock() lockID { return lockID{int(h.db), h.key()} }

// owner is the field of the hold in Redis.
func (h *hold) owner() string {
	if name := h.name(); name != "" {
		return name
	}
	return h.carrier.service.ownerName(h.number)
}

func (h *hold) appendOwner(dst []byte) []byte {
	if name := h.name(); name != "" {
		return append(dst, name...)
	}
	return h.carrier.service.appendOwnerName(dst, h.number)
}

// isOf reports whether h is that owner's.
func (h *hold) isOf(owner string) bool {
	if name := h.name(); name != "" || owner == "" {
		return name == owner && name != ""
	}
	return h.owner() == owner
}

// handed is how often in a row the lock was handed over by releases of this Leash, and so came to
// h.
func (h *hold) handed() int {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.rare().handed
}

type state uint8

const (
	granting state = iota // nobody knows of it yet
	held
	lessening // a release of one of its counts is under way; the rest is kept
	releasing // a release is under way: what the watchdog finds out now is no news
	over
)

// plan is how the watchdog is to keep h. A lease is looked at as often as others are renewed, if it
// lasts as long.
func (h *hold) plan(until time.Time) renewal.Plan {
	p := renewal.Plan{DB: int(h.db), Kind: int(h.kind), Slot: slotOf(h.key()), TTL: h.ttl, Lease: h.lease, Until: until}
	if p.Lease {
		p.TTL = min(h.ttl, h.carrier.service.cfg.WatchdogTimeout)
	}
	if h.mode() == read {
		p.Every = readPace
	}
	if !h.carrier.service.cluster {
		p.Slot &^= 0xff // one node: few full requests rather than many small ones
	}
	return p
}

// readPace is how often the lock of a READ hold is looked after, at least. The renewal of a Java
// reader of it sets the lock's TTL plainly, to 30 s if it is left as it comes, and after its last
// one the reader may be gone.
const readPace = 10 * time.Second

// sees lets the watchdog look after the lock of a READ hold more often when less was left of it
// than our renewals leave: at least three times within that (R12). When nobody shortens it any
// more, the looks become rarer step by step. Steps of two keep holds together.
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

// endsWithLocked reports whether the hold is to be released when its connection ends in that way
// (R28). One that its owner does not know of is, in any case.
func (h *hold) endsWithLocked(how Ending) bool {
	return h.hiddenLocked() || h.rare().lapsed || how == Release && !h.lease && !h.stays
}

// ended reports whether nobody needs to be told of h any more: its connection is gone, or knows
// that it was lost.
func (h *hold) ended() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.carrier.ended || h.evicted
}

// lessen counts a release of which counts remain. One that puts an acquire back names its ID, as a
// record has it.
func (h *hold) lessen(back string) {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.count = max(h.count-1, 1)
	if h.extra != nil && recordID(h.extra.last) == back {
		h.extra.last = ""
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

// misses reports whether h is not there while a release of one of its counts is under way. That may
// have been the last count, if others were released by another way: whether it is a loss the answer
// will tell.
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

// counted is a count as a hold has it. One that high is as good as any lower one.
func counted(n int64) int32 { return int32(min(n, math.MaxInt32)) }

// recount lowers the count of h to that in Redis: another Leash says that it has released some.
func (h *hold) recount() {
	s := h.carrier.service
	if !h.open(s.deadline()) {
		return
	}
	defer h.close()
	l, err := s.inspect(h.lock(), s.deadline())
	f, ok := l.find(options{token: h.token})
	if err != nil || !ok || f.record.carrier != h.carrier.name {
		return
	}
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.count = counted(max(min(int64(h.count), f.count), 1))
}

// Ended implements renewal.Keeper: another way of the owner's has ended or moved the hold, or its
// lease is over. The connection that carried a hold which was moved on purpose is closed, if it is
// still there (R25).
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
		h.carrier.host.Moved([]byte(h.key()))
	}
}
