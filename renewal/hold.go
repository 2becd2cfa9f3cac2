package renewal

import (
	"context"
	"time"
)

// Outcome is what the store says of one hold.
type Outcome uint8

const (
	Unknown Outcome = iota // no answer, or one that says nothing of the hold
	// it is ours; unless it is a lease, it now lasts its TTL from when the request was sent
	Renewed
	Released // its owner ended it by another way
	Moved    // it is ours no more, but its owner's still, who moved it on purpose
	Repeated // it is ours no more, but its owner's still, who asked for it again
	Broken   // it was ended on purpose, against its owner's will
	Gone     // it is not there, and nobody says why
	Expired  // a lease that is over
)

// Reasons for a loss, a closed set fit for counters.
const (
	ReasonGone      = "gone"      // the store does not have the hold any more
	ReasonBroken    = "broken"    // it was broken on purpose
	ReasonSilence   = "silence"   // the store did not answer until the lease could be over
	ReasonSuspended = "suspended" // this machine slept for too long
)

// Keeper is who a hold is kept for.
type Keeper interface {
	// Lost says that the hold has ended, or may have, against its owner's will. It returns when the
	// owner can do no more harm.
	Lost(reason string)
	// Ended says that the hold is over and that nobody need mind: Released, Moved, Repeated or
	// Expired.
	Ended(how Outcome)
}

// Plan says how a hold is to be kept.
type Plan struct {
	DB   int           // the database it lies in
	Kind int           // what the store asks for in another way; the store's own numbers
	Slot int           // holds of one slot, kind and TTL of a database go together; 0 to 16383
	TTL  time.Duration // what a renewal sets; for a lease, how often to look is a third of it
	// look after it, but do not renew it: from Until on it may be over, and is when the store says
	// so
	Lease bool
	Every time.Duration // ask at least so often; if zero, a third of TTL is often enough
	Until time.Time     // it is safe until then
}

// Hold is one lock somebody has. Its zero value with a Keeper is ready for Add, and for Add again
// after its end.
type Hold struct {
	Keeper Keeper

	// Guarded by the Watchdog's mu.
	until moment
	group uint32 // its group's number in the Watchdog's lists; 0 when it is not kept
	entry uint32 // its own in the Watchdog's roll
	at    int32  // index in group.holds
}

// Batch is holds of one slot of a database, of one kind and one TTL, that go to the store in one
// request.
type Batch struct {
	DB    int
	Kind  int
	Slot  int
	TTL   time.Duration
	Lease bool          // look only
	Every time.Duration // how often it is asked for
	Holds []*Hold
}

// Store is where the holds live.
type Store interface {
	// Node names the node that serves slot now, "" if none does. Databases that cannot be asked in
	// one go have nodes of their own.
	Node(db, slot int) string
	// Renew sends all batches, which are of one database, to node at once and writes what it says
	// of each hold, in order, in out, which has room for it, all Unknown: for batches[i] in out[i].
	// It makes out[i] nil for a batch that was refused as a whole, whose holds are then asked for
	// one by one. It returns when ctx ends, and keeps nothing of batches and out.
	Renew(ctx context.Context, node string, batches []Batch, out [][]Outcome)
}

// Until is how long a hold is safe that was granted or renewed by a request sent at sent. The
// margin covers clocks that run unequally and the time it takes to tell the owner.
func Until(sent time.Time, ttl time.Duration) time.Time { return sent.Add(safeTime(ttl)) }

func safeTime(ttl time.Duration) time.Duration { return ttl - min(ttl/50+20*time.Millisecond, ttl/4) }
