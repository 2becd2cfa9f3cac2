package event

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/renewal"
)

// Holds is what a LossWait asks about the holds of its own Leash.
type Holds interface {
	// Watch watches the end of a hold. end gets one value: the reason of a loss, "" for a regular
	// end, or Moved when another connection has the hold now. end is nil if this Leash does not
	// have the hold. Call cancel if nobody reads end any more.
	Watch(lock script.Lock, token int64) (seen script.Hold, end <-chan string, cancel func())
	// GraceLeft is how long a new master may lack holds of a key.
	GraceLeft(key string) time.Duration
}

// LossWait waits for the loss of one hold, on whatever connection and Leash it is. It belongs to
// one goroutine.
type LossWait struct {
	// Set before Run.
	Redis         *script.Client
	Subscriptions *Subscriptions
	Holds         Holds
	Lock          script.Lock
	Token         int64
	Interval      time.Duration // about the time between two checks
	MaxChecks     int           // checks that find no hold while a new master may lack it

	Seen *script.Hold // the hold as Redis last had it; nil before

	failedChecks int       // checks so far that found no hold
	unseenErr    error     // why: script.ErrAbsent, or Redis did not answer
	leaseEnd     time.Time // when Seen, a lease, is over; zero when it is renewed
	lastCheck    time.Time // time of the last check
	absence
	subscribing
}

// absence is what is known of a hold that Redis has no more.
type absence struct {
	missingSince   time.Time // since when it is missing without a reason
	broken         bool      // it was marked as broken and was missing at the last check
	leaseMayBeOver bool      // it was missing when its lease may have been over
}

// subscribing is what brings the messages on the lock's channel.
type subscribing struct {
	subscribed         <-chan struct{} // closed once no message can be missed; then nil
	wake               <-chan struct{} // a message came
	cancelSubscription func()          // nil before the hold was seen
}

// Run waits at most until ctx ends. The reason is "" when the hold was not lost. There is an error
// only when the hold was never seen: script.ErrAbsent, transport.ErrUnknown, transport.ErrRefused
// or Redis's answer about the key.
func (w *LossWait) Run(ctx context.Context) (reason string, err error) {
	defer w.unsubscribe()
	for {
		if seen, end, cancel := w.Holds.Watch(w.Lock, w.Token); end != nil {
			select {
			case reason := <-end:
				if reason != Moved {
					return reason, nil
				}
				w.Seen = &seen
				w.notMissing()
			case <-ctx.Done():
				cancel()
				return "", nil
			}
		}
		if reason, over, err := w.Check(); over {
			return reason, err
		}
		switch rested := w.sleep(ctx); {
		case !rested && w.Seen == nil:
			return "", w.unseenErr
		case !rested && w.broken:
			return renewal.ReasonBroken, nil
		case !rested:
			return "", nil
		}
	}
}

// notMissing notes that the hold is there, perhaps at another carrier. Nothing is known of its
// lease.
func (w *LossWait) notMissing() {
	w.missingSince, w.broken, w.leaseEnd = time.Time{}, false, time.Time{}
}

const (
	lossPause = 10 * time.Millisecond // the shortest time between two checks
	seekPause = 100 * time.Millisecond
)

// nextCheck is the pause until the next check without a message. If the hold is missing, it ends
// when its Leash must have reported the end.
func (w *LossWait) nextCheck() time.Duration {
	switch {
	case !w.missingSince.IsZero():
		return max(min(time.Since(w.missingSince), w.checkInterval()), lossPause)
	case w.failedChecks > 0 && w.Seen == nil:
		return seekPause
	}
	return w.checkInterval()
}

// checkInterval is about the interval. It is shorter for a short TTL, because the tombstone lives
// only as long as the TTL of the hold.
func (w *LossWait) checkInterval() time.Duration {
	d := time.Duration((0.8 + 0.4*rand.Float64()) * float64(w.Interval))
	if w.Seen != nil && w.Seen.Record.TTL > 0 {
		d = min(d, script.Millis(w.Seen.Record.TTL)/4)
	}
	return max(d, lossPause)
}

// sleep waits until the next check. It returns false when ctx or the client ends first. Many
// messages on a channel cause at most one check in 100 ms.
func (w *LossWait) sleep(ctx context.Context) bool {
	timer := time.NewTimer(w.nextCheck())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.subscribed:
		w.subscribed = nil
	case <-w.wake:
	case <-ctx.Done():
		return false
	case <-w.Redis.Stopped:
		return false
	}
	return w.Redis.Sleep(ctx, max(10*lossPause-time.Since(w.lastCheck), 0))
}

// subscribe wakes this wait when the lock is released, which may be the end of the hold.
func (w *LossWait) subscribe() {
	if w.cancelSubscription == nil {
		w.subscribed, w.wake, w.cancelSubscription = w.Subscriptions.subscribeWaiter(
			w.Seen.Mode.Channel(w.Lock.Key), w.Lock)
	}
}

func (w *LossWait) unsubscribe() {
	if w.cancelSubscription != nil {
		w.cancelSubscription()
	}
}

// Check asks Redis for the hold. Without an answer the wait is not over. A key of another type has
// no hold (R25).
func (w *LossWait) Check() (reason string, over bool, err error) {
	w.lastCheck = time.Now()
	until := w.lastCheck.Add(time.Second)
	info, err := w.Redis.Inspect(w.Lock, until)
	silent := err != nil && !strings.HasPrefix(transport.ErrorText(err), "WRONGTYPE")
	f, ok := info.Find(w.Token)
	switch {
	case w.Seen == nil && err != nil:
		w.unseenErr = err
		return "", !transport.IsSilence(err), err
	case silent:
		return "", false, nil
	case !ok && w.Seen == nil:
		w.failedChecks++ // a new master may lack it
		w.unseenErr = script.ErrAbsent
		over = w.Holds.GraceLeft(w.Lock.Key) <= 0 || w.failedChecks >= w.MaxChecks || info.EndedBefore(w.Token)
		return "", over, script.ErrAbsent
	case !ok:
		reason, over = w.endReason(until)
		return reason, over, nil
	}
	w.Seen = &f
	w.notMissing()
	if f.Record.Terms().Lease {
		w.leaseEnd = time.Now().Add(info.Left)
	}
	w.subscribe()
	if text, err := w.Redis.Tombstone(w.ref(), until); err == nil {
		// The holder has been told, and the hold is about to be ended.
		if how, reason, _ := strings.Cut(text, " "); how == Lost {
			return reason, true, nil
		}
	}
	// Its Leash is to write a tombstone when the hold ends, or if it has ended. The event may be
	// lost, so each check sends it again.
	Send(w.Redis, Watched, w.ref(), time.Now().Add(time.Second))
	return "", false, nil
}

// ref names the hold as it was last seen.
func (w *LossWait) ref() script.Ref { return w.Seen.Ref(w.Lock) }
