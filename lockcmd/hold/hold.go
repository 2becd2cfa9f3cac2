package hold

import (
	"math"
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// Hold is a lock that somebody has through this Leash. There may be a million holds. So extra has
// what few of them need, and what can be computed is not stored.
type Hold struct {
	Carrier *Carrier
	Token   int64
	Watch   renewal.Hold // for the watchdog
	naming
	since int64  // when a carrier got it, see Registry.now
	entry uint32 // its number in the index, while a carrier has it
	db    int32

	// Guarded by Carrier.mu.
	extra *extra
	ttl   time.Duration // of a renewal, or the lease
	count int32         // its acquires, as far as this Leash knows
	status

	kind uint8 // id of the mode; not guarded
}

// status is what changes most of a hold.
type status struct {
	state       State
	flags       script.Flags // only Lease ever changes
	remoteWatch remoteWatch  // waiters on other Leashes for its end
	notices     notices
	// a request about the hold is in progress
	requestsLocked bool
}

// extra is the part of a hold that only few holds need.
type extra struct {
	terms  script.Terms // without the flags
	lastID string       // ID of the last acquire
	// waiters for the request lock; each is closed when it has the lock
	requestQueue []chan struct{}
	endWatchers  []chan string // waiters on this Leash for its end
	maxHoldEnd   time.Time     // end of MAXHOLD, once that counts
	maxHoldTimer *time.Timer   // fires at maxHoldEnd
	moves        int64         // moves to other carriers
	group        *Group        // its MACQUIRE; nil when it stands alone
	// hand-overs in a row on this Leash up to this hold; 0 when the lock was free
	handovers int
}

// Grant is what makes a Hold.
type Grant struct {
	Key   string
	DB    int
	Mode  *script.Mode
	Owner string // as the client gave it; "" for one that this Leash generated
	// Number is that of the generated owner.
	Number int64
	Token  int64
	TTL    time.Duration // of a renewal, or the lease
	Terms  script.Terms
	Since  time.Time // MAXHOLD counts from here

	Group     *Group // its MACQUIRE, or nil
	Handovers int    // hand-overs in a row on this Leash up to this grant

	// Moved says that another carrier had the hold, and so its owner knows of it.
	Moved bool
	Moves int64 // moves to other carriers so far
	Count int64 // acquires of the owner; 0 counts as 1
}

// New makes a hold that was granted. Carrier.Attach makes it one of c's holds.
func New(c *Carrier, g *Grant) *Hold {
	h := &Hold{
		Carrier: c, naming: numbered(g.Key, g.Number), Token: g.Token,
		count: clampCount(max(g.Count, 1)), status: status{flags: g.Terms.Flags}, ttl: g.TTL,
	}
	if g.Number == 0 {
		h.naming = named(g.Key, g.Owner)
	}
	h.db, h.kind = int32(g.DB), g.Mode.ID
	h.Watch.Keeper = h
	if g.Moved && g.Mode != script.Permit {
		h.remoteWatch = watched // somebody may be watching it
	}
	terms := g.Terms
	terms.Flags = script.Flags{}
	if terms == (script.Terms{}) && g.Moves == 0 && g.Handovers == 0 && g.Group == nil {
		return h
	}
	h.extra = &extra{terms: terms, group: g.Group, handovers: g.Handovers, moves: g.Moves}
	if terms.MaxHold > 0 && g.Group == nil { // in a group MAXHOLD counts when the group is complete
		h.extra.maxHoldEnd = g.Since.Add(terms.MaxHold)
	}
	return h
}

// Copy is h as a hold of c, which has ended. No carrier has it.
func (h *Hold) Copy(c *Carrier) *Hold {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	return &Hold{Carrier: c, naming: h.naming, db: h.db, kind: h.kind, Token: h.Token, ttl: h.ttl, count: 1}
}

// readExtra returns a copy of extra, for reading. The caller holds Carrier.mu.
func (h *Hold) readExtra() extra {
	if h.extra == nil {
		return extra{}
	}
	return *h.extra
}

// writeExtra returns extra, for writing. The caller holds Carrier.mu, or nobody else knows h.
func (h *Hold) writeExtra() *extra {
	if h.extra == nil {
		h.extra = &extra{}
	}
	return h.extra
}

// naming says which lock is held, and by whom. The key and the owner are in one string, which
// saves memory.
type naming struct {
	text string // the key, then the owner's name as the client gave it
	// number of a generated owner, above 0; otherwise the length of the key, negated
	number int64
}

// named is the naming of a hold with a named owner.
func named(key, owner string) naming { return naming{text: key + owner, number: -int64(len(key))} }

// numbered is the naming of a hold whose owner this Leash generated with that number.
func numbered(key string, number int64) naming { return naming{text: key, number: number} }

// Key is the name of the lock.
func (n naming) Key() string {
	if n.number > 0 {
		return n.text
	}
	return n.text[:-n.number]
}

// name is the owner as the client gave it, "" for a generated owner.
func (n naming) name() string {
	if n.number > 0 {
		return ""
	}
	return n.text[-n.number:]
}

// Mode is how the lock is held.
func (h *Hold) Mode() *script.Mode { return script.ModeOf(h.kind) }

// IsPermit reports whether h is a permit of a semaphore.
func (h *Hold) IsPermit() bool { return h.Mode() == script.Permit }

// Lock is the lock that is held.
func (h *Hold) Lock() script.Lock { return script.Lock{DB: int(h.db), Key: h.Key()} }

// Ref is the hold for a call of a script.
func (h *Hold) Ref() script.Ref {
	return script.Ref{Lock: h.Lock(), Token: h.Token, Carrier: h.Carrier.Name}
}

// Owner is the name of the hold's field in Redis.
func (h *Hold) Owner() string {
	if name := h.name(); name != "" {
		return name
	}
	return h.Carrier.registry.OwnerName(h.number)
}

// AppendOwner appends Owner to dst.
func (h *Hold) AppendOwner(dst []byte) []byte {
	if name := h.name(); name != "" {
		return append(dst, name...)
	}
	return h.Carrier.registry.appendOwnerName(dst, h.number)
}

// IsOf reports whether owner has h.
func (h *Hold) IsOf(owner string) bool {
	if name := h.name(); name != "" || owner == "" {
		return name == owner && name != ""
	}
	return h.Owner() == owner
}

// Age is for how long a carrier of this Leash has h.
func (h *Hold) Age() time.Duration { return script.Millis(h.Carrier.registry.now() - h.since) }

// Since orders holds by when a carrier of this Leash got them.
func (h *Hold) Since() int64 { return h.since }

// State is what this Leash knows of h.
func (h *Hold) State() State {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	return h.state
}

// IsFresh reports whether h was granted and is not one of a carrier's holds yet.
func (h *Hold) IsFresh() bool { return h.State() == granting }

// IsGone reports whether h is over, or never was one of a carrier's holds.
func (h *Hold) IsGone() bool {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	return h.state == Over || h.entry == 0
}

// Details is what may change about a hold.
type Details struct {
	Count     int64         // acquires of its owner
	TTL       time.Duration // of a renewal, or the lease
	Terms     script.Terms
	LastID    string // ID of the last acquire
	Moves     int64  // moves to other carriers before this one
	Handovers int    // hand-overs in a row on this Leash up to it
	State     State
	// Watched says that somebody waits for its end, or did on another Leash.
	Watched bool
	// MaxHoldEnd is the end of MAXHOLD; zero without.
	MaxHoldEnd time.Time
}

// Details returns what may change about h.
func (h *Hold) Details() Details {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	x := h.readExtra()
	x.terms.Flags = h.flags
	return Details{
		Count: int64(h.count), TTL: h.ttl, Terms: x.terms, LastID: x.lastID, Moves: x.moves, Handovers: x.handovers,
		State: h.state, Watched: h.remoteWatch != notWatched || len(x.endWatchers) > 0, MaxHoldEnd: x.maxHoldEnd,
	}
}

// Raise makes h last as its further acquire asks. A hold is a lease only while all its acquires
// were.
func (h *Hold) Raise(ttl time.Duration, lease bool) {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	if !lease && h.flags.Lease {
		h.flags.Lease, h.ttl = false, ttl
	} else if lease == h.flags.Lease {
		h.ttl = max(h.ttl, ttl)
	}
}

// Decrement notes a release of one count. A release that puts an acquire back gives the acquire's
// ID in the form of a record.
func (h *Hold) Decrement(back string) {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	h.count = max(h.count-1, 1)
	if h.extra != nil && script.RecordID(h.extra.lastID) == back {
		h.extra.lastID = ""
	}
}

// LowerCount lowers the count of h to that in Redis, because another Leash has released counts.
func (h *Hold) LowerCount(n int64) {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	h.count = clampCount(max(min(int64(h.count), n), 1))
}

// OwnerInformed reports whether the owner needs no report about h: its connection is gone, or it
// was told of a loss.
func (h *Hold) OwnerInformed() bool {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	return h.Carrier.ended || h.state == leaving || h.state == ending
}

// setLastIDLocked sets the ID of the last acquire.
func (h *Hold) setLastIDLocked(id string) {
	if h.readExtra().lastID != id {
		h.writeExtra().lastID = id
	}
}

// clampCount limits a count to what a hold stores. Such a high count is as good as any lower one.
func clampCount(n int64) int32 { return int32(min(n, math.MaxInt32)) }
