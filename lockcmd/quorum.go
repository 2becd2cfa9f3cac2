package lockcmd

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/script"
)

const (
	// how long an attempt waits for a node that does not answer
	quorumTimeout = time.Second
	quorumSlack   = 100 * time.Millisecond // the same when there is a quorum without it
	minBackOff    = 10 * time.Millisecond
	maxBackOff    = 200 * time.Millisecond
)

// takeMost takes at least a quorum of the keys. It attempts all and releases what it got if that
// is too little. It waits with nothing in hand, so others do not wait for it and there is no
// deadlock.
//
// Two callers could take half of the keys each, again and again. So after each failure a caller
// pauses for a random time, up to twice as long each time, as on an Ethernet. Then it waits until
// one of the taken keys is free, and attempts the rest with that key in hand. On one Leash, callers
// with the same keys queue, and the first one attempts.
func (ma *multiAcquisition) takeMost() result {
	s, n := ma.carrier.service, ma.quorum
	if ma.mayWait() {
		waiter := s.queues.join(ma.queueID(), quorumRequest{}, false)
		defer s.queues.leave(waiter, result{}, true)
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

// queueID is the queue of callers with the same keys on this Leash.
func (ma *multiAcquisition) queueID() queueID {
	var set strings.Builder
	for _, opts := range ma.keys {
		set.WriteString(strconv.Itoa(len(opts.key)) + ":" + opts.key)
	}
	return queueID{script.Lock{DB: ma.keys[0].db, Key: set.String()}, "quorum"}
}

func (ma *multiAcquisition) blockOver() bool {
	return !ma.end.IsZero() && !time.Now().Before(ma.end) || ma.carrier.isUnblocked()
}

// awaitHead waits to become the head of the queue.
func (ma *multiAcquisition) awaitHead(w *waiter) result {
	for {
		if _, ok := ma.carrier.service.queues.beginAttempt(w); ok {
			return result{kind: granted}
		}
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
}

// quorumRequest is the request of a caller that waits until it is the head of its queue.
type quorumRequest struct{}

func (quorumRequest) attempt(time.Time, position) result      { return result{kind: granted} }
func (quorumRequest) passesOn(waitRequest, result, bool) bool { return true }
func (quorumRequest) takesFrom(*script.Mode) bool             { return false }

// pause waits for d.
func (ma *multiAcquisition) pause(d time.Duration) result { return ma.sleep(nil, d) }

// sleep waits for a wake-up, for d, or for what is left of BLOCK. The result is granted if the
// command goes on.
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

// judgeAttempt decides after an attempt with fewer than n keys what to answer and whether there is
// another attempt. Keys are only taken if at least n of them are either free or held by somebody.
func (ma *multiAcquisition) judgeAttempt(results []keyResult, n int) (r result, again bool) {
	least, hopeless := len(ma.keys)-n, 0 // least is how many keys may be missing
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

// awaitOne waits about a second for the first key that was taken. Others may be free then. If none
// was taken, Redis did not answer, and it pauses briefly. It reports whether it has a key in hand.
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
