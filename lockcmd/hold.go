package lockcmd

import (
	"math"
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// hold is a lock that somebody has through this Leash. There may be a million holds. So extra has
// what few of them need, and what can be computed is not stored.
type hold struct {
	// Immutable.
	carrier *Carrier
	naming
	token int64
	db    int32
	kind  uint8 // id of its mode

	entry uint32 // its number in the index, while a carrier has it

	watch renewal.Hold

	// Guarded by carrier.mu.
	extra          *extra
	ttl            time.Duration // of a renewal, or the lease
	count          int32         // its acquires, as far as this Leash knows
	state          state
	script.Flags               // only lease ever changes
	requestLocked  bool        // a request about it is in progress
	releaseWaiting bool        // a release waits for the request lock
	remoteWatch    remoteWatch // waiters on other Leashes for its end
	// The watchdog did not find it while it was decrementing. The goroutine of that release finds
	// out why.
	missed     bool
	evicted    bool // reported as lost; to be ended whatever is in progress
	unanswered bool // LOCK.NOTIFY: the client has no answer yet that names it
	wanted     bool // its owner was told that somebody waits
}

// extra is the part of a hold that only few holds need.
type extra struct {
	lastID string // ID of the last acquire
	// waiters for the request lock; each is closed when it has the lock
	requestQueue        []chan struct{}
	endWatchers         []endWatcher  // waiters on this Leash for its end
	maxHold             time.Duration // MAXHOLD; zero without
	maxHoldEnd          time.Time     // end of MAXHOLD, once that counts
	maxHoldTimer        *time.Timer   // fires at maxHoldEnd
	idle                time.Duration // IDLE; zero without
	idleOver            bool          // IDLE is over
	moves               int64         // moves to other carriers
	restorePendingUntil time.Time     // until then a late restore of it may arrive
	group               *holdGroup    // its MACQUIRE; nil when it stands alone
	// hand-overs in a row on this Leash up to this hold; 0 when the lock was free
	handovers int
}

// readExtra returns a copy of extra, for reading. The caller holds carrier.mu.
func (h *hold) readExtra() extra {
	if h.extra == nil {
		return extra{}
	}
	return *h.extra
}

// writeExtra returns extra, for writing. The caller holds carrier.mu, or nobody else knows h.
func (h *hold) writeExtra() *extra {
	if h.extra == nil {
		h.extra = &extra{}
	}
	return h.extra
}

func (h *hold) mode() *script.Mode { return script.ModeOf(h.kind) }

func (h *hold) lock() lockID { return lockID{int(h.db), h.key()} }

// owner is the name of the hold's field in Redis.
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

// isOf reports whether owner has h.
func (h *hold) isOf(owner string) bool {
	if name := h.name(); name != "" || owner == "" {
		return name == owner && name != ""
	}
	return h.owner() == owner
}

// handovers is how many hand-overs in a row on this Leash led to h.
func (h *hold) handovers() int {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.readExtra().handovers
}

type state uint8

const (
	granting state = iota // nobody knows of it yet
	held
	decrementing // a release of one count is in progress; the rest is renewed
	releasing    // a release is in progress; the watchdog's findings do not count
	over
)

// plan is how the watchdog keeps h. A lease is checked as often as other holds are renewed, if it
// lasts that long.
func (h *hold) plan(until time.Time) renewal.Plan {
	p := renewal.Plan{DB: int(h.db), Kind: int(h.kind), Slot: script.SlotOf(h.key()), TTL: h.ttl, Lease: h.Lease, Until: until}
	if p.Lease {
		p.TTL = min(h.ttl, h.carrier.service.cfg.WatchdogTimeout)
	}
	if h.mode() == script.Read {
		p.Every = readPace
	}
	if !h.carrier.service.redis.IsCluster {
		p.Slot &^= 0xff // a single node: few full requests
	}
	return p
}

// readPace is how often the lock of a READ hold is checked at least. A renewal by a Java reader
// sets the lock's TTL to its own value, usually 30 s, and that reader may be gone afterwards.
const readPace = 10 * time.Second

// adjustPace checks the lock of a READ hold more often when less time was left than our renewals
// set: at least three times in that time (R12). Otherwise the checks become rarer again, in steps
// of two, which keeps holds together.
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

// transition moves h to a new state if it is in one of the states from.
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

// endsWithLocked reports whether the hold is released when its connection ends in that way (R28). A
// hold that its owner has not been told of is always released.
func (h *hold) endsWithLocked(how Ending) bool {
	return h.unreportedLocked() || h.readExtra().idleOver || how == Release && !h.Lease && !h.StayOnClose
}

// ownerInformed reports whether the owner needs no report about h: its connection is gone, or it
// was told of a loss.
func (h *hold) ownerInformed() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.carrier.ended || h.evicted
}

// decrement notes a release of one count. A release that puts an acquire back gives the acquire's
// ID in the form of a record.
func (h *hold) decrement(back string) {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.count = max(h.count-1, 1)
	if h.extra != nil && script.RecordID(h.extra.lastID) == back {
		h.extra.lastID = ""
	}
}

func (h *hold) clearReleaseWaiting() {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.releaseWaiting = false
}

// forget ends h for this Leash, whatever is in Redis. It reports whether h was in one of the
// states.
func (h *hold) forget(from ...state) bool {
	if !h.transition(over, from...) {
		return false
	}
	h.unregister()
	return true
}

// unregister removes h, which is over, from everything that knows it.
func (h *hold) unregister() {
	s := h.carrier.service
	h.stopTimer()
	h.reportEnd("")
	s.watchdog.Remove(&h.watch)
	s.unindex(h)
	s.stats.holds.Add(-1)
	h.carrier.guard(-1)
}

// Lost implements renewal.Keeper. It tells the owner before anybody else can get the lock (R27).
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

// noteMissing reports whether h is missing while a release of one count is in progress. It may have
// been the last count if others were released by another way. The answer to the release tells
// whether that is a loss.
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

// clampCount limits a count to what a hold stores. Such a high count is as good as any lower one.
func clampCount(n int64) int32 { return int32(min(n, math.MaxInt32)) }

// recount lowers the count of h to that in Redis, because another Leash has released counts.
func (h *hold) recount() {
	s := h.carrier.service
	if !h.lockRequests(s.deadline()) {
		return
	}
	defer h.unlockRequests()
	info, err := s.inspect(h.lock(), s.deadline())
	f, ok := info.find(options{token: h.token})
	if err != nil || !ok || f.record.Carrier != h.carrier.name {
		return
	}
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.count = clampCount(max(min(int64(h.count), f.count), 1))
}

// Ended implements renewal.Keeper: the owner ended or moved the hold by another way, or its lease
// is over. After an ATTACH elsewhere, it closes the connection that had the hold (R25).
func (h *hold) Ended(how renewal.Outcome) {
	there := !h.ownerInformed()
	if how == renewal.Moved || how == renewal.Repeated {
		h.reportEnd(movedText)
	}
	if h.forget(held, decrementing, releasing) && there && how == renewal.Moved {
		h.carrier.host.Moved([]byte(h.key()))
	}
}
