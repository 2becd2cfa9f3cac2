package renewal

import (
	"context"
	"time"
)

// Outcome is what the store says of one hold.
type Outcome uint8

const (
	Unknown  Outcome = iota // no answer, or one that does not tell
	Renewed                 // it is ours; if not a lease, for its TTL from when the request was sent
	Released                // its owner ended it in another way
	Moved                   // its owner moved it to another connection, by LOCK.ATTACH
	Repeated                // its owner moved it by repeating the acquire on another connection
	Broken                  // LOCK.BREAK ended it
	Gone                    // it is not there, and no tombstone says why
	Expired                 // a lease that is over
)

// Reasons for a loss. There are no others, so counters can be labelled with them.
const (
	ReasonGone      = "gone"      // the store does not have the hold any more
	ReasonBroken    = "broken"    // it was broken on purpose
	ReasonSilence   = "silence"   // the store did not answer until the lease could be over
	ReasonSuspended = "suspended" // this machine was suspended for too long
)

// Keeper is told how a hold ends.
type Keeper interface {
	// Lost says that the hold has ended, or may have, against its owner's will. When it returns,
	// the owner sends nothing more under the lock.
	Lost(reason string)
	// Ended says that the hold is over and that this is no loss: Released, Moved, Repeated or
	// Expired.
	Ended(how Outcome)
}

// Plan says how a hold is renewed.
type Plan struct {
	DB   int           // the database it lies in
	Kind int           // the store's own number; the store has a request for each kind
	Slot int           // holds of one slot, kind and TTL of a database go together; 0 to 16383
	TTL  time.Duration // what a renewal sets; a lease is checked every third of it
	// Lease says that the hold is checked and not renewed. After Until it may be over. It is when
	// the store says so.
	Lease bool
	Every time.Duration // the longest time between two requests; if zero, a third of TTL
	Until time.Time     // it is safe until then
}

// Hold is a lock that an owner has. Its zero value with a Keeper is ready for Add. After its end it
// can be added again.
type Hold struct {
	Keeper Keeper

	// Guarded by the Watchdog's mu.
	until moment
	group uint32 // its group's number in Watchdog.groupTable; 0 when it is in none
	entry uint32 // its number in Watchdog.holdTable
	at    int32  // index in group.holds
}

// Batch is holds that go to the store in one request: of one database, slot, kind and TTL.
type Batch struct {
	DB    int
	Kind  int
	Slot  int
	TTL   time.Duration
	Lease bool          // check only
	Every time.Duration // the time between two requests
	Holds []*Hold
}

// Store is where the holds live.
type Store interface {
	// Node names the node that serves slot now; "" if none does. Databases that cannot share a call
	// have nodes of their own.
	Node(db, slot int) string
	// Renew sends all batches to node in one call. They are of one database. It writes the outcomes
	// of the holds of batches[i] to out[i], in their order. All are Unknown before. If the node
	// refused batches[i] as a whole, Renew sets out[i] to nil, and each of its holds is then sent
	// alone. Renew returns when ctx ends, and keeps neither batches nor out.
	Renew(ctx context.Context, node string, batches []Batch, out [][]Outcome)
}

// Until is the time up to which a hold is safe, if a request sent at sent granted or renewed it.
// The margin covers clocks of different speed, and the time it takes to tell the owner of a loss.
func Until(sent time.Time, ttl time.Duration) time.Time { return sent.Add(safeTime(ttl)) }

func safeTime(ttl time.Duration) time.Duration { return ttl - min(ttl/50+20*time.Millisecond, ttl/4) }
