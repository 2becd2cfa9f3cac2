package event

import (
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/renewal"
)

// A tombstone tells the carrier of a hold why the hold is gone, when somebody else ended, moved or
// changed it. Its text is one of these:
//
//	released        The owner released it.
//	left            It will expire: its connection has ended. For AWAITLOSS on other Leashes.
//	moved <to>      An ATTACH moved it to that carrier. The old connection is closed (R25).
//	repeated <to>   A repeated ACQUIRE moved it to that carrier. The old connection stays open.
//	broken          A BREAK has marked it. Its Leash will report how it ended.
//	broken forced   A BREAK has ended it without its Leash.
//	lost <reason>   It was lost. For AWAITLOSS and BREAK on other Leashes.
//	extended <ms>   Its lease was set. It is over when the tombstone has only that many ms left.
const (
	Released = "released"
	Left     = "left"
	Moved    = "moved"
	Repeated = "repeated"
	Broken   = "broken"
	Extended = "extended"
	Lost     = "lost"
)

// Forced is the whole tombstone of a hold that BREAK ended without its Leash.
const Forced = Broken + " forced"

// Outcome is what the tombstone of a missing hold says. leaseOver says that its lease is over, as
// far as its Leash knows.
func Outcome(redis *script.Client, ref script.Ref, text string, leaseOver bool, until time.Time) renewal.Outcome {
	how, more, _ := strings.Cut(text, " ")
	switch how {
	case Released:
		return renewal.Released
	case Moved:
		return renewal.Moved
	case Repeated:
		return renewal.Repeated
	case Broken:
		return renewal.Broken
	case Lost:
		if more == renewal.ReasonBroken {
			return renewal.Broken
		}
	case Extended:
		if leaseOver {
			return renewal.Expired
		}
		return leaseOutcome(redis, ref, more, until)
	}
	return renewal.Gone
}

// tombstoneSlack is how much later than the lease a script may have written its tombstone, because
// Redis's clock runs on within a script.
const tombstoneSlack = 50 * time.Millisecond

// leaseOutcome reports whether a lease that was extended is over. Its tombstone lives keep ms
// longer.
func leaseOutcome(redis *script.Client, ref script.Ref, keep string, until time.Time) renewal.Outcome {
	ms, err := strconv.ParseInt(keep, 10, 64)
	if err != nil {
		return renewal.Gone
	}
	left, err := redis.TombstoneLeft(ref, until)
	switch {
	case err != nil:
		return renewal.Unknown
	case left <= script.Millis(ms)+tombstoneSlack:
		return renewal.Expired
	}
	return renewal.Gone
}

// WriteTombstone writes a tombstone that lives for keep, and publishes on a channel that it is
// there. If it fails, waiters find out by themselves, less exactly. A hold that is left to expire
// must still exist: otherwise it was lost, and its Leash has not noticed yet. A mark of BREAK would
// stay, so Leash does not inspect the lock for it: a BREAK of n READ holds would inspect n holds n
// times.
func WriteTombstone(redis *script.Client, ref script.Ref, text string, keep time.Duration, channel string) {
	until := time.Now().Add(transport.MaxAttempt)
	if text == Left {
		if present, _ := redis.Tombstone(ref, until); present == Broken {
			return
		}
		info, err := redis.Inspect(ref.Lock, until)
		if f, ok := info.Find(ref.Token); err != nil || !ok || f.Record.Carrier != ref.Carrier {
			return
		}
	}
	redis.WriteTombstone(ref, text, keep, channel, until)
}
