package acquire

import (
	"context"
	"sync/atomic"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/release"
	"leash/lockcmd/script"
)

// Acquirer obtains holds for the carriers of one Leash. Set the fields before the first call. It is
// safe for concurrent use.
type Acquirer struct {
	*release.Releaser
	Waits *Waiters
	Names Names // nil for no limit
	// Granted is told of a hold that a carrier has now, and for how long its command has waited. It
	// does not block, and no mutex is held.
	Granted func(h *hold.Hold, waited time.Duration)

	Acquires    atomic.Int64 // grants, including further acquires of an owner
	Undone      atomic.Int64 // acquires of unknown outcome that were taken back
	NameLimited atomic.Int64 // acquires that Names refused
}

// Names limits how many holds of a name there are.
type Names interface {
	// Full returns what names there are too many of, as a pattern, if each of the names was held n
	// times more. It is empty if there is room for all. It does not block and is safe for
	// concurrent use.
	Full(names []string, n int64) (pattern string)
}

// admit delays or refuses an acquire of keys that would give n holds each.
func (a *Acquirer) admit(ctx context.Context, n int64, keys ...string) error {
	if a.Names != nil {
		if pattern := a.Names.Full(keys, n); pattern != "" {
			a.NameLimited.Add(1)
			return refusal.Error("LOCKLIMIT this Leash has as many holds as --limit-name-holds permits for '" +
				pattern + "'")
		}
	}
	a.awaitRenewals(ctx)
	return nil
}

// awaitRenewals delays an acquire while renewals lag by more than does no harm. The delay is half
// of that excess, at most 1 s. Without it, a client that takes locks very fast could get so many
// that Leash loses some.
func (a *Acquirer) awaitRenewals(ctx context.Context) {
	if excess := time.Duration(a.Holds.Watchdog.Stats.Excess.Load()); excess > 0 {
		a.Redis.Sleep(ctx, min(excess/2, time.Second))
	}
}

// isHeld reports whether Redis has h. Without an answer from Redis it reports true, unless h is a
// lease that should be over.
func (a *Acquirer) isHeld(h *hold.Hold) bool {
	info, err := a.Redis.Inspect(h.Lock(), a.Redis.Deadline())
	if err != nil {
		return !h.LeaseOver()
	}
	_, ok := info.Find(h.Token)
	if !ok {
		a.Holds.Watchdog.Check(&h.Watch)
	}
	return ok
}

// hasOwner reports whether Redis has a hold of the lock for that owner. Without an answer from
// Redis it reports true.
func (a *Acquirer) hasOwner(lock script.Lock, owner string) bool {
	info, err := a.Redis.Inspect(lock, a.Redis.Deadline())
	if err != nil {
		return true
	}
	_, ok := hold.Selector{Owner: owner}.Find(info)
	return ok
}
