package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"leash/internal/guard"
	"leash/lockcmd/script"
	"leash/renewal"
)

const awaitLossName = "LOCK.AWAITLOSS"

// awaitLoss runs LOCK.AWAITLOSS: it waits until the hold with a token is lost, on whatever
// connection and Leash it is. A regular end of the hold ends the wait too.
func (c *Carrier) awaitLoss(ctx context.Context, dst []byte, args [][]byte) []byte {
	if len(args) != 6 {
		return appendError(dst, msgArity(awaitLossName))
	}
	o, msg := parseOptions(args[2:], awaitLossWords)
	waits, block, wrong := o.parseBlock()
	if msg = cmp.Or(msg, wrong); msg == "" && (!waits || o.token == 0) {
		msg = msgSyntax
	}
	if msg = cmp.Or(msg, c.service.keyError(string(args[1]))); msg != "" {
		return appendError(dst, msg)
	}
	if !c.beginWait() {
		return appendError(dst, msgLimit)
	}
	defer c.endWait()
	if block == 0 {
		block = script.MaxTTL
	}
	ctx, cancel := context.WithTimeout(ctx, block)
	defer cancel()
	c.onUnblock(cancel)
	defer context.AfterFunc(c.service.lossWaitsEnd, guard.Func(c.service.log, "end of a wait", cancel))()
	w := &lossWait{service: c.service, lock: c.id(string(args[1])), options: o}
	reason, err := w.run(ctx)
	fails := c.endCommandWait()
	switch {
	case fails && reason == "":
		return appendError(dst, msgUnblocked)
	case reason == "" && c.service.lossWaitsEnd.Err() != nil:
		return appendError(dst, msgDraining)
	case errors.Is(err, errAbsent):
		return appendError(dst, msgNotHeld)
	case errors.Is(err, script.ErrUnknown), errors.Is(err, script.ErrRefused):
		return c.timeout(dst, msgRefused)
	case err != nil:
		return appendError(dst, script.ErrorText(err))
	case reason == "":
		return appendNil(dst)
	}
	return appendBulk(dst, reason)
}

// lossWait waits for the loss of the hold that its options mean.
type lossWait struct {
	service *Service
	lock    lockID
	options options

	seen           *script.Hold // the hold as Redis last had it
	failedChecks   int          // checks so far that found no hold
	unseenErr      error        // why: errAbsent, or Redis did not answer
	leaseEnd       time.Time    // when seen, a lease, is over; zero when it is renewed
	missingSince   time.Time    // since when it is missing without a reason
	broken         bool         // it was marked as broken and was missing at the last check
	leaseMayBeOver bool         // it was missing when its lease may have been over

	lastCheck time.Time // time of the last check
	// closed once no message on the lock's channel can be missed; then nil
	subscribed         <-chan struct{}
	wake               <-chan struct{} // a message came on that channel
	cancelSubscription func()          // nil before the hold was seen
}

// run waits at most until ctx ends. The reason is "" when the hold was not lost. There is an error
// only when the hold was never seen: errAbsent, script.ErrUnknown, script.ErrRefused or Redis's
// answer about the key.
func (w *lossWait) run(ctx context.Context) (reason string, err error) {
	s := w.service
	defer w.unsubscribe()
	for {
		if h := s.find(w.lock, w.options.meansHold); h != nil {
			if told := h.watchEnd(); told != nil {
				select {
				case reason := <-told:
					if reason != movedText {
						return reason, nil
					}
					w.missingSince, w.broken, w.leaseEnd = time.Time{}, false, time.Time{}
					w.seen = &script.Hold{Mode: h.mode(), Owner: h.owner(), Record: script.Record{Token: h.token, Carrier: h.carrier.name}}
				case <-ctx.Done():
					h.unwatch(told)
					return "", nil
				}
			}
		}
		if reason, over, err := w.check(); over {
			return reason, err
		}
		switch rested := w.sleep(ctx); {
		case !rested && w.seen == nil:
			return "", w.unseenErr
		case !rested && w.broken:
			return renewal.ReasonBroken, nil
		case !rested:
			return "", nil
		}
	}
}

// lossPause is the shortest time between two checks.
const lossPause = 10 * time.Millisecond

// nextCheck is the pause until the next check without a message. If the hold is missing, it ends
// when its Leash must have reported the end.
func (w *lossWait) nextCheck() time.Duration {
	switch {
	case !w.missingSince.IsZero():
		return max(min(time.Since(w.missingSince), w.checkInterval()), lossPause)
	case w.failedChecks > 0 && w.seen == nil:
		return seekPause
	}
	return w.checkInterval()
}

// checkInterval is about a second. It is shorter for a short TTL, because the tombstone lives only
// as long as the TTL of the hold.
func (w *lossWait) checkInterval() time.Duration {
	d := w.service.nextAttempt(result{}, rand.Float64())
	if w.seen != nil && w.seen.Record.TTL > 0 {
		d = min(d, script.Millis(w.seen.Record.TTL)/4)
	}
	return max(d, lossPause)
}

// sleep waits until the next check. It returns false when ctx or the Service ends first. Many
// messages on a channel cause at most one check in 100 ms.
func (w *lossWait) sleep(ctx context.Context) bool {
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
	case <-w.service.redis.Stopped:
		return false
	}
	return w.service.sleep(ctx, max(10*lossPause-time.Since(w.lastCheck), 0))
}

// subscribe wakes this wait when the lock is released, which may be the end of the hold.
func (w *lossWait) subscribe() {
	if w.cancelSubscription == nil {
		w.subscribed, w.wake, w.cancelSubscription = w.service.subscriber.subscribeWaiter(w.seen.Mode.Channel(w.lock.key), w.lock)
	}
}

func (w *lossWait) unsubscribe() {
	if w.cancelSubscription != nil {
		w.cancelSubscription()
	}
}

// check asks Redis for the hold. Without an answer the wait is not over. A key of another type has
// no hold (R25).
func (w *lossWait) check() (reason string, over bool, err error) {
	w.lastCheck = time.Now()
	until := w.lastCheck.Add(time.Second)
	info, err := w.service.redis.Inspect(w.lock.inRedis(), until)
	silent := err != nil && !strings.HasPrefix(script.ErrorText(err), "WRONGTYPE")
	f, ok := w.options.find(info)
	switch {
	case w.seen == nil && err != nil:
		w.unseenErr = err
		return "", !errors.Is(err, script.ErrUnknown) && !errors.Is(err, script.ErrRefused), err
	case silent:
		return "", false, nil
	case !ok && w.seen == nil:
		w.failedChecks++ // a new master may lack it
		w.unseenErr = errAbsent
		return "", w.service.graces.left(w.lock.key) <= 0 || w.failedChecks >= w.service.maxSeeks || w.options.endedBefore(info), errAbsent
	case !ok:
		reason, over = w.endReason(until)
		return reason, over, nil
	}
	w.seen, w.missingSince, w.broken, w.leaseEnd = &f, time.Time{}, false, time.Time{}
	if f.Record.Terms().Lease {
		w.leaseEnd = time.Now().Add(info.Left)
	}
	w.subscribe()
	if text, err := w.service.redis.Tombstone(holdRef{f.Record.Token, f.Record.Carrier}.inRedis(w.lock), until); err == nil {
		// The holder has been told, and the hold is about to be ended.
		if how, reason, _ := strings.Cut(text, " "); how == lostText {
			return reason, true, nil
		}
	}
	w.requestReport()
	return "", false, nil
}

// requestReport asks the Leash of the hold to write a tombstone when the hold ends, or if it has
// ended. The event may be lost, so each check sends it again.
func (w *lossWait) requestReport() {
	s, r := w.service, w.seen.Record
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.redis.Database(w.lock.db).Publish(ctx, script.CarrierChannel(r.Carrier), holdEventText(watchedEvent, r.Token, r.Carrier, w.lock.key))
}

// endReason finds out how a hold ended that Redis does not have. It spends at most the time of one
// check. The tombstone of the last carrier decides, so a hold that was moved is followed from
// carrier to carrier.
func (w *lossWait) endReason(until time.Time) (reason string, over bool) {
	s, r := w.service, &w.seen.Record
	for time.Now().Before(until) {
		ref := holdRef{r.Token, r.Carrier}.inRedis(w.lock)
		text, err := s.redis.Tombstone(ref, until)
		if errors.Is(err, script.ErrRefused) {
			break
		}
		how, more, _ := strings.Cut(text, " ")
		switch {
		case how == lostText:
			return more, true
		case text == brokenText: // its owner may have been first; its Leash will say so
			w.broken = true
			return renewal.ReasonBroken, w.reportOverdue()
		case how == brokenText:
			return renewal.ReasonBroken, true
		case how == releasedText, how == leftText:
			return "", true
		case strings.HasSuffix(more, perhapsSuffix): // the tombstone will become definite soon
			return "", false
		case how == movedText, how == repeatedText:
			r.Carrier, w.missingSince, w.broken, w.leaseEnd = more, time.Time{}, false, time.Time{}
			continue
		case how == extendedText:
			ctx, cancel := context.WithDeadline(context.Background(), until)
			outcome := s.leaseOutcome(ctx, ref, more)
			cancel()
			if outcome != renewal.Gone {
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
func (w *lossWait) endWithoutTombstone() (reason string, over bool) {
	switch {
	case w.service.graces.left(w.lock.key) > 0:
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
// reason.
func (w *lossWait) reportOverdue() bool {
	if w.missingSince.IsZero() {
		w.missingSince, w.leaseMayBeOver = time.Now(), !w.leaseEnd.IsZero() && time.Now().Add(time.Second).After(w.leaseEnd)
		w.requestReport()
		return false
	}
	return time.Since(w.missingSince) >= w.checkInterval()
}

// sleep waits for d. It returns false when ctx or the Service ends first.
func (s *Service) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.redis.Stopped:
	}
	return false
}
