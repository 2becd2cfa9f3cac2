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
	extra          *extra
	ttl            time.Duration // of the renewal, or the lease
	count          int32         // its acquires, as far as this Leash knows
	state          state
	holdFlags                  // only lease ever changes
	requestLocked  bool        // the gate is taken
	releaseWaiting bool        // a release waits for the gate
	remoteWatch    remoteWatch // who waits for its end on other Leashes
	// the watchdog has not found it while it was lessening: whoever releases the count says why
	missed     bool
	evicted    bool // it was told as lost, and is to be ended whatever else is under way about it
	unanswered bool // its owner has not been answered yet (LOCK.NOTIFY)
	wanted     bool // its owner was told that somebody waits for it
}

// extra is what only few holds have.
type extra struct {
	lastID              string          // the ID of the last acquire
	requestQueue        []chan struct{} // who waits for the gate; closed when it is theirs
	endWatchers         []endWatcher    // who waits on this Leash for the end
	maxHold             time.Duration   // MAXHOLD; zero without
	maxHoldEnd          time.Time       // when that is over, once it has begun to count
	maxHoldTimer        *time.Timer     // for limit
	idle                time.Duration   // IDLE; zero without
	idleOver            bool            // it is over
	moves               int64           // how often it was moved to another carrier
	restorePendingUntil time.Time       // until then a request that puts it back on a new master may still come
	group               *holdGroup      // the hold is in with others; nil when it stands for itself
	// of how many grants in a row it is the last that releases of this Leash made within; 0 when
	// the lock was free
	handovers int
}

// readExtra is what h has of extra, to be read. carrier.mu is held.
func (h *hold) readExtra() extra {
	if h.extra == nil {
		return extra{}
	}
	return *h.extra
}

// writeExtra is extra, to be written to. carrier.mu is held, or nobody else knows h yet.
func (h *hold) writeExtra() *extra {
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

// handovers is how often in a row the lock was handed over by releases of this Leash, and so came to
// h.
func (h *hold) handovers() int {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.readExtra().handovers
}

type state uint8

const (
	granting state = iota // nobody knows of it yet
	held
	decrementing // a release of one of its counts is under way; the rest is kept
	releasing    // a release is under way: what the watchdog finds out now is no news
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

// adjustPace lets the watchdog look after the lock of a READ hold more often when less was left of it
// than our renewals leave: at least three times within that (R12). When nobody shortens it any
// more, the looks become rarer step by step. Steps of two keep holds together.
func (h *hold) adjustPace(left time.Duration, b renewal.Batch) {
	usual := min(readPace, b.TTL/3)
	pace := min(2*b.Every, usual)
	if left < b.TTL/2 {
		for pace = usual; pace > max(left/3, MinTTL/3); {
			pace /= 2
		}
	}
	h.carrier.service.watchdog.SetPace(&h.watch, pace)
}

// transition moves h to a new state, if it is in one of from.
func (h *hold) transition(to state, from ...state) bool {
	c := h.carrier
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range from {
		if h.state != f {
			continue
		}
		h.state = to
		if to == over {
			c.removeHoldLocked(h)
		}
		return true
	}
	return false
}

func (h *hold) inState(s state) bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.state == s
}

// endsWithLocked reports whether the hold is to be released when its connection ends in that way
// (R28). One that its owner does not know of is, in any case.
func (h *hold) endsWithLocked(how Ending) bool {
	return h.unreportedLocked() || h.readExtra().idleOver || how == Release && !h.lease && !h.stayOnClose
}

// ownerInformed reports whether nobody needs to be told of h any more: its connection is gone, or knows
// that it was lost.
func (h *hold) ownerInformed() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.carrier.ended || h.evicted
}

// decrement counts a release of which counts remain. One that puts an acquire back names its ID, as a
// record has it.
func (h *hold) decrement(back string) {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.count = max(h.count-1, 1)
	if h.extra != nil && recordID(h.extra.lastID) == back {
		h.extra.lastID = ""
	}
}

func (h *hold) clearReleaseWaiting() {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.releaseWaiting = false
}

// forget ends h for this Leash, whatever is in Redis. It reports whether it did.
func (h *hold) forget(from ...state) bool {
	if !h.transition(over, from...) {
		return false
	}
	h.unregister()
	return true
}

// unregister takes h, which is over, out of the books.
func (h *hold) unregister() {
	s := h.carrier.service
	h.stopTimer()
	h.reportEnd("")
	s.watchdog.Remove(&h.watch)
	s.unindex(h)
	s.stats.holds.Add(-1)
	h.carrier.guard(-1)
}

// Lost implements renewal.Keeper: the owner is told before anybody else can get the lock (R27).
func (h *hold) Lost(reason string) {
	if reason == renewal.ReasonGone && h.noteMissing() {
		return
	}
	if _, ok := h.lose(over, reason); ok {
		h.unregister()
		return
	}
	h.forget(releasing)
}

// noteMissing reports whether h is not there while a release of one of its counts is under way. That may
// have been the last count, if others were released by another way: whether it is a loss the answer
// will tell.
func (h *hold) noteMissing() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.missed = h.missed || h.state == decrementing
	return h.state == decrementing
}

func (h *hold) wasMissed() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.missed
}

// clampCount is a count as a hold has it. One that high is as good as any lower one.
func clampCount(n int64) int32 { return int32(min(n, math.MaxInt32)) }

// recount lowers the count of h to that in Redis: another Leash says that it has released some.
func (h *hold) recount() {
	s := h.carrier.service
	if !h.lockRequests(s.deadline()) {
		return
	}
	defer h.unlockRequests()
	info, err := s.inspect(h.lock(), s.deadline())
	f, ok := info.find(options{token: h.token})
	if err != nil || !ok || f.record.carrier != h.carrier.name {
		return
	}
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.count = clampCount(max(min(int64(h.count), f.count), 1))
}

// Ended implements renewal.Keeper: another way of the owner's has ended or moved the hold, or its
// lease is over. The connection that carried a hold which was moved on purpose is closed, if it is
// still there (R25).
func (h *hold) Ended(how renewal.Outcome) {
	there := !h.ownerInformed()
	if how == renewal.Moved || how == renewal.Repeated {
		h.reportEnd(movedText)
	}
	if !h.forget(held, decrementing, releasing) || !there || how != renewal.Moved && how != renewal.Repeated {
		return
	}
	h.push(grantedNotice, h.token)
	if how == renewal.Moved {
		h.carrier.host.Moved([]byte(h.key()))
	}
}
