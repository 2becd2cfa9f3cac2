package event

import (
	"errors"
	"strings"
	"time"

	"leash/lockcmd/script/transport"
	"leash/renewal"
)

// endReason finds out how a hold ended that Redis does not have. It spends at most the time of one
// check. The tombstone of the last carrier decides, so a hold that was moved is followed from
// carrier to carrier.
func (w *LossWait) endReason(until time.Time) (reason string, over bool) {
	for time.Now().Before(until) {
		text, err := w.Redis.Tombstone(w.ref(), until)
		if errors.Is(err, transport.ErrRefused) {
			break
		}
		how, more, _ := strings.Cut(text, " ")
		switch {
		case how == Lost:
			return more, true
		case text == Broken: // its owner may have been first; its Leash will say so
			w.broken = true
			return renewal.ReasonBroken, w.reportOverdue()
		case how == Broken:
			return renewal.ReasonBroken, true
		case how == Released, how == Left:
			return "", true
		case how == Moved, how == Repeated:
			w.Seen.Record.Carrier = more
			w.notMissing()
			continue
		case how == Extended:
			if outcome := leaseOutcome(w.Redis, w.ref(), more, until); outcome != renewal.Gone {
				return "", outcome == renewal.Expired
			}
			w.leaseEnd = time.Time{} // it was the end of an earlier lease
		}
		return w.endWithoutTombstone()
	}
	return "", false
}

// endWithoutTombstone decides how a hold ended that has no tombstone. It waits first, because the
// tombstone comes after the end, and the message about this wait may be late. After that, a lease
// that may be over has ended; any other hold is lost.
func (w *LossWait) endWithoutTombstone() (reason string, over bool) {
	switch {
	case w.Holds.GraceLeft(w.Lock.Key) > 0:
		// A new master may lack it. Its Leash restores it then.
		return "", false
	case !w.reportOverdue():
		return "", false
	case w.leaseMayBeOver:
		return "", true
	}
	return renewal.ReasonGone, true
}

// reportOverdue reports whether the Leash of a missing hold has had enough time to report the
// reason. Each check asks that Leash again: the event may be lost, or come before that Leash
// knows that its release of the hold has succeeded.
func (w *LossWait) reportOverdue() bool {
	now := time.Now()
	if w.missingSince.IsZero() {
		w.missingSince, w.leaseMayBeOver = now, !w.leaseEnd.IsZero() && now.Add(time.Second).After(w.leaseEnd)
	}
	if now.Sub(w.missingSince) >= w.checkInterval() {
		return true
	}
	Send(w.Redis, Watched, w.ref(), now.Add(time.Second))
	return false
}
