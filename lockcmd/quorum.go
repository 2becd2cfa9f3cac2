package lockcmd

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	// how long a round waits for a node that does not answer
	quorumTimeout = time.Second
	quorumSlack   = 100 * time.Millisecond // and when there is a quorum without it
	minBackOff    = 10 * time.Millisecond
	maxBackOff    = 200 * time.Millisecond
)

// takeMost takes at least n of the keys: it tries all, and gives back what it got when that are
// fewer. It waits with nothing in hand, so nobody waits for it, neither for long nor in a ring.
// That two callers do not for ever take half of the keys each is seen to by chance, as on an
// Ethernet: who has failed stays away for a random time, twice as long after each time. Then it
// waits until one of the keys that were taken is to be had, and tries for the rest with that in
// hand. On one Leash those who want the same keys stand in line, and the first one tries.
func (ma *multiAcquisition) takeMost() result {
	s, n := ma.carrier.service, ma.quorum
	if ma.mayWait() {
		waiter := s.permitQueues.join(ma.queueID())
		defer s.permitQueues.leave(waiter, true)
		if r := ma.awaitHead(waiter); r.kind != granted {
			return r
		}
	}
	for window := minBackOff; ; {
		until := time.Now().Add(quorumTimeout)
		if deadline := ma.deadline(); deadline.Before(until) {
			until = deadline
		}
		results := ma.attemptMissing(n, until)
		if r := ma.complete(n); r.kind != taken {
			return r
		}
		ma.drop(0)
		r, wait := ma.judgeAttempt(results, n)
		if !wait {
			return r
		}
		if !ma.beginWait() {
			return result{kind: failed, text: msgLimit}
		}
		if stop := ma.pause(time.Duration(rand.Int64N(int64(window)))); stop.kind != granted {
			return stop
		}
		if ma.blockOver() {
			return r
		}
		window = min(2*window, maxBackOff)
		if !ma.awaitOne(results) {
			window = minBackOff
		}
	}
}

// queueID is where those stand on this Leash who want the same keys.
func (ma *multiAcquisition) queueID() queueID {
	var set strings.Builder
	for _, opts := range ma.keys {
		set.WriteString(strconv.Itoa(len(opts.key)) + ":" + opts.key)
	}
	return queueID{lockID{ma.keys[0].db, set.String()}, "quorum"}
}

func (ma *multiAcquisition) blockOver() bool {
	return !ma.end.IsZero() && !time.Now().Before(ma.end) || ma.carrier.isUnblocked()
}

// awaitHead waits to be the first in the line.
func (ma *multiAcquisition) awaitHead(w *permitWaiter) result {
	s := ma.carrier.service
	for !s.permitQueues.beginAttempt(w) {
		if !ma.beginWait() {
			return result{kind: failed, text: msgLimit}
		}
		if r := ma.sleep(w.wake, time.Hour); r.kind != granted {
			return r
		}
		if ma.blockOver() {
			return result{kind: taken}
		}
	}
	return result{kind: granted}
}

// pause does nothing for a time.
func (ma *multiAcquisition) pause(d time.Duration) result { return ma.sleep(nil, d) }

// sleep waits until woken, for d or for what is left of BLOCK. It is granted that the command goes
// on.
func (ma *multiAcquisition) sleep(wake <-chan struct{}, d time.Duration) result {
	if left := ma.blockLeft(); left > 0 {
		d = min(d, left)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ma.ctx.Done():
		return result{kind: failed, text: msgGone}
	case <-wake:
	case <-ma.carrier.unblocked():
	case <-timer.C:
	}
	if ma.carrier.service.draining.Load() {
		return result{kind: failed, text: msgDraining}
	}
	return result{kind: granted}
}

// judgeAttempt says of a round that brought fewer than n keys what to answer if it was the last, and
// whether there may be another. While fewer than n are either to be had or held by somebody, it is
// not that they are taken.
func (ma *multiAcquisition) judgeAttempt(results []keyResult, n int) (r result, again bool) {
	least, hopeless := len(ma.keys)-n, 0 // how many may be missing
	r = result{kind: taken}
	var wrong result
	errors := 0
	for _, kr := range results {
		if kr.hold != nil || kr.result.text == "" {
			continue
		}
		if errors++; wrong.text == "" || kr.result.kind == failed {
			wrong = kr.result
		}
		if kr.result.kind == failed {
			hopeless++
		}
	}
	if errors > least {
		r = wrong
	}
	if ma.ctx.Err() != nil {
		return result{kind: failed, text: msgGone}, false
	}
	return r, ma.mayWait() && hopeless <= least && !ma.blockOver()
}

// awaitOne waits at the first key that was taken, for about a second: others may be to be had by
// then. Where none was taken, Redis did not answer, and it lets a little time pass. It reports
// whether it has a key in hand.
func (ma *multiAcquisition) awaitOne(results []keyResult) bool {
	s := ma.carrier.service
	first := -1
	for _, kr := range results {
		if kr.result.kind == taken && kr.hold == nil && (first < 0 || kr.index < first) {
			first = kr.index
		}
	}
	if first < 0 {
		ma.pause(s.nextAttempt(result{kind: busy}, rand.Float64()))
		return false
	}
	block := s.nextAttempt(result{}, rand.Float64())
	if left := ma.blockLeft(); left > 0 {
		block = min(block, left)
	}
	return ma.takeKey(first, block).kind == granted
}
