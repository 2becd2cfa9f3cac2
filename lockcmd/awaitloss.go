package lockcmd

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"leash/internal/guard"
	"leash/renewal"
)

const awaitLossName = "LOCK.AWAITLOSS"

// awaitLoss is LOCK.AWAITLOSS: it waits until the hold with a token, on whatever connection and
// Leash it hangs, is lost. A hold that ends as it should ends the wait.
func (c *Carrier) awaitLoss(ctx context.Context, dst []byte, args [][]byte) []byte {
	if len(args) != 6 {
		return appendError(dst, msgArity(awaitLossName))
	}
	o, msg := parseOptions(args[2:], awaitLossWords)
	waits, block, wrong := o.parseBlock()
	if msg == "" {
		msg = wrong
	}
	if msg == "" && (!waits || o.token == 0) {
		msg = msgSyntax
	}
	if msg == "" {
		msg = c.service.keyError(string(args[1]))
	}
	if msg != "" {
		return appendError(dst, msg)
	}
	if !c.beginWait() {
		return appendError(dst, msgLimit)
	}
	defer c.endWait()
	if block == 0 {
		block = maxTTL
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
	case errors.Is(err, errUnknown), errors.Is(err, errRefused):
		return c.timeout(dst, msgRefused)
	case err != nil:
		return appendError(dst, scriptError(err))
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

	seen           *found    // the hold as Redis had it last
	failedChecks   int       // looks that have not found it, as none has yet
	unseenErr      error     // what the last of them came to: errAbsent, or Redis has not said
	leaseEnd       time.Time // when seen, a lease, is over by itself; zero when it is renewed
	missingSince   time.Time // since then it has not been there any more, and nobody has said why
	broken         bool      // it was to be broken, and was not there any more when last looked for
	leaseMayBeOver bool      // when it was missed, it was a lease that may have been over by itself

	lastCheck time.Time // last
	// from then on nothing that is said on the lock's channel is missed; nil afterwards
	subscribed         <-chan struct{}
	wake               <-chan struct{} // something was said there
	cancelSubscription func()          // the channel; nil before the hold was seen
}

// run waits until ctx ends at the latest. The reason is "" when the hold was not lost. The error,
// when it was not seen at all, is errAbsent, errUnknown, errRefused or Redis's answer about the
// key.
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
					w.seen = &found{mode: h.mode(), owner: h.owner(), record: record{token: h.token, carrier: h.carrier.name}}
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

// lossPause is the least time between two looks.
const lossPause = 10 * time.Millisecond

// nextCheck is how long not to look, if nothing is said: until its Leash must have said how the hold
// has ended, if it is not there any more.
func (w *lossWait) nextCheck() time.Duration {
	switch {
	case !w.missingSince.IsZero():
		return max(min(time.Since(w.missingSince), w.checkInterval()), lossPause)
	case w.failedChecks > 0 && w.seen == nil:
		return seekPause
	}
	return w.checkInterval()
}

// checkInterval is a second or so, or less for a tombstone that lives no longer than the hold's TTL.
func (w *lossWait) checkInterval() time.Duration {
	d := w.service.nextAttempt(result{}, rand.Float64())
	if w.seen != nil && w.seen.record.ttl > 0 {
		d = min(d, millis(w.seen.record.ttl)/4)
	}
	return max(d, lossPause)
}

// sleep waits until it is time to look. It returns false when ctx or the Service ends meanwhile. A
// lock of which much is said is not looked at each time.
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
	case <-w.service.stop:
		return false
	}
	return w.service.sleep(ctx, max(10*lossPause-time.Since(w.lastCheck), 0))
}

// subscribe has us woken when the lock is released, which may be the end of the hold.
func (w *lossWait) subscribe() {
	if w.cancelSubscription == nil {
		w.subscribed, w.wake, w.cancelSubscription = w.service.subscriber.subscribeWaiter(w.seen.mode.channel(w.lock.key), w.lock)
	}
}

func (w *lossWait) unsubscribe() {
	if w.cancelSubscription != nil {
		w.cancelSubscription()
	}
}

// check is what Redis says of the hold. It is not over while Redis does not say; a key of another
// type has no hold (R25).
func (w *lossWait) check() (reason string, over bool, err error) {
	w.lastCheck = time.Now()
	until := w.lastCheck.Add(time.Second)
	info, err := w.service.inspect(w.lock, until)
	silent := err != nil && !strings.HasPrefix(scriptError(err), "WRONGTYPE")
	f, ok := info.find(w.options)
	switch {
	case w.seen == nil && err != nil:
		w.unseenErr = err
		return "", !errors.Is(err, errUnknown) && !errors.Is(err, errRefused), err
	case silent:
		return "", false, nil
	case !ok && w.seen == nil:
		w.failedChecks++ // a new master may have forgotten it
		w.unseenErr = errAbsent
		return "", w.service.graces.left(w.lock.key) <= 0 || w.failedChecks >= w.service.maxSeeks || info.excludes(w.options), errAbsent
	case !ok:
		reason, over = w.endReason(until)
		return reason, over, nil
	}
	w.seen, w.missingSince, w.broken, w.leaseEnd = &f, time.Time{}, false, time.Time{}
	if f.record.terms().lease {
		w.leaseEnd = time.Now().Add(info.left)
	}
	w.subscribe()
	if text, err := w.service.value(w.lock.db, tombstoneKey(w.lock.key, f.record.token, f.record.carrier), until); err == nil {
		// its holder knows, and it is about to be ended
		if how, reason, _ := strings.Cut(text, " "); how == lostText {
			return reason, true, nil
		}
	}
	w.requestReport()
	return "", false, nil
}

// requestReport asks the Leash that carries the hold to say in Redis how it ends, or has ended. The news may
// be lost, so it is told again at each look.
func (w *lossWait) requestReport() {
	s, r := w.service, w.seen.record
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.database(w.lock.db).Publish(ctx, carrierChannel(r.carrier), holdEventText(watchedEvent, r.token, r.carrier, w.lock.key))
}

// endReason is how a hold has ended that Redis does not have any more: its Leash says so, or is not there
// to say it. It gets one look's time. Who carried it last says so: one that was moved since it was
// seen is followed from carrier to carrier.
func (w *lossWait) endReason(until time.Time) (reason string, over bool) {
	s, r := w.service, &w.seen.record
	for time.Now().Before(until) {
		key := tombstoneKey(w.lock.key, r.token, r.carrier)
		text, err := s.value(w.lock.db, key, until)
		if errors.Is(err, errRefused) {
			break
		}
		how, more, _ := strings.Cut(text, " ")
		switch {
		case how == lostText:
			return more, true
		case text == brokenText: // unless its owner was first: then its Leash is about to say so
			w.broken = true
			return renewal.ReasonBroken, w.reportOverdue()
		case how == brokenText:
			return renewal.ReasonBroken, true
		case how == releasedText, how == leftText:
			return "", true
		case strings.HasSuffix(more, perhapsSuffix): // soon it says more, or less
			return "", false
		case how == movedText, how == repeatedText:
			r.carrier, w.missingSince, w.broken, w.leaseEnd = more, time.Time{}, false, time.Time{}
			continue
		case how == extendedText:
			ctx, cancel := context.WithDeadline(context.Background(), until)
			outcome := s.leaseOutcome(ctx, w.lock.db, key, more)
			cancel()
			if outcome != renewal.Gone {
				return "", outcome == renewal.Expired
			}
			w.leaseEnd = time.Time{} // was that of an earlier lease
		}
		return w.endWithoutTombstone()
	}
	return "", false
}

// endWithoutTombstone is how a hold has ended of which no tombstone says so. It is looked for until its Leash
// has had its time, for the end comes first, and its Leash may have heard too late that somebody
// wants to know; then it was a lease that is over by itself, or it is lost.
func (w *lossWait) endWithoutTombstone() (reason string, over bool) {
	switch {
	case w.service.graces.left(w.lock.key) > 0:
		// a new master may have forgotten it, then it is put back
		return "", false
	case !w.reportOverdue():
		return "", false
	case w.leaseMayBeOver:
		return "", true
	}
	return renewal.ReasonGone, true
}

// reportOverdue reports whether the Leash that carried a hold which is not there any more has had its time
// to say why.
func (w *lossWait) reportOverdue() bool {
	if w.missingSince.IsZero() {
		w.missingSince, w.leaseMayBeOver = time.Now(), !w.leaseEnd.IsZero() && time.Now().Add(time.Second).After(w.leaseEnd)
		w.requestReport()
		return false
	}
	return time.Since(w.missingSince) >= w.checkInterval()
}

// sleep waits for d. It returns false when ctx or the Service ends meanwhile.
func (s *Service) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.stop:
	}
	return false
}
