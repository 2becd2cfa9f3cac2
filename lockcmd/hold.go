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
	since uint32 // when a carrier got it, see Service.now

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
	unanswered     bool        // LOCK.NOTIFY: the client has no answer yet that names it
	wanted         bool        // its owner was told that somebody waits
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

func (h *hold) lock() script.Lock { return script.Lock{DB: int(h.db), Key: h.key()} }

// ref is the hold for a call of a script.
func (h *hold) ref() script.Ref {
	return script.Ref{Lock: h.lock(), Token: h.token, Carrier: h.carrier.name}
}

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

// plan is how the watchdog keeps h. A lease is checked as often as other holds are renewed, if it
// lasts that long.
func (h *hold) plan(until time.Time) renewal.Plan {
	p := renewal.Plan{
		DB: int(h.db), Kind: int(h.kind), Slot: script.SlotOf(h.key()), TTL: h.ttl, Lease: h.Lease, Until: until,
	}
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

func (h *hold) currentState() state {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.state
}

// closingEventLocked is what happens to h when its connection ends in that way (R28). A hold that
// its owner has not been told of is always released.
func (h *hold) closingEventLocked(how Ending) holdEvent {
	if h.unreportedLocked() || how == Release && !h.Lease && !h.StayOnClose {
		return closedToRelease
	}
	return closedToExpire
}

// ownerInformed reports whether the owner needs no report about h: its connection is gone, or it
// was told of a loss.
func (h *hold) ownerInformed() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.carrier.ended || h.state == leaving || h.state == ending
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

// Lost implements renewal.Keeper. It tells the owner before anybody else can get the lock (R27).
func (h *hold) Lost(reason string) {
	if reason == renewal.ReasonGone {
		h.apply(vanished, reason)
	} else {
		h.apply(expired, reason)
	}
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
	info, err := s.redis.Inspect(h.lock(), s.deadline())
	f, ok := info.Find(h.token)
	if err != nil || !ok || f.Record.Carrier != h.carrier.name {
		return
	}
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.count = clampCount(max(min(int64(h.count), f.Count), 1))
}

// Ended implements renewal.Keeper: the owner ended or moved the hold by another way, or its lease
// is over. After an ATTACH elsewhere, the connection that had the hold is closed (R25).
func (h *hold) Ended(how renewal.Outcome) {
	switch how {
	case renewal.Moved:
		h.apply(attachedElsewhere, "")
	case renewal.Repeated:
		h.apply(elsewhere, "")
	default:
		h.apply(ended, "")
	}
}
