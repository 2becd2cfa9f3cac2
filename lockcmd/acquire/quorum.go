package acquire

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"leash/internal/guard"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

const (
	// how long an attempt waits for a node that does not answer
	quorumTimeout = time.Second
	quorumSlack   = 100 * time.Millisecond // the same when there is a quorum without it
	minBackOff    = 10 * time.Millisecond
	maxBackOff    = 200 * time.Millisecond
)

// quorumRequest takes at least a quorum of the keys. It attempts all and releases what it got if
// that is too little. It waits with nothing in hand, so others do not wait for it and there is no
// deadlock.
//
// Two callers could take half of the keys each, again and again. So after each failure a caller
// pauses for a random time, up to twice as long each time, as on an Ethernet. Then it waits until
// one of the taken keys is free, and attempts the rest with that key in hand. On one Leash, callers
// with the same keys queue, and the first one attempts.
type quorumRequest struct {
	*multiRequest
	window  time.Duration // the longest next pause
	results []keyResult   // of the last attempt; nil before
	last    Result        // what it means
}

// takeMost takes at least a quorum of the keys.
func (ma *multiRequest) takeMost() Result {
	q, r, again := &quorumRequest{multiRequest: ma, window: minBackOff}, Result{Kind: Taken}, true
	wt := wait.Wait[Result]{Queue: ma.queueID(), Request: q, End: ma.end}
	if !ma.mayWait() || !ma.carrier.Acquirer.Waits.Waiting(wt.Queue) {
		r, again = q.attemptOnce()
	}
	switch {
	case !again:
		return r
	case !ma.beginWait():
		return failed(refusal.TooMany)
	}
	return ma.carrier.await(ma.ctx, wt, r)
}

// queueID is the queue of callers with the same keys on this Leash.
func (ma *multiRequest) queueID() wait.QueueID {
	var set strings.Builder
	for _, opts := range ma.keys {
		set.WriteString(strconv.Itoa(len(opts.Key)) + ":" + opts.Key)
	}
	return wait.QueueID{Lock: script.Lock{DB: ma.keys[0].DB, Key: set.String()}}
}

// Attempt implements wait.Request. It attempts until it has the keys or BLOCK is over.
func (q *quorumRequest) Attempt(time.Time, wait.Position) Result {
	for {
		if q.results != nil {
			if stop := q.backOff(); stop.Kind != Granted {
				return stop
			}
		}
		if r, again := q.attemptOnce(); !again {
			return r
		}
	}
}

// PassesOn implements wait.Request.
func (*quorumRequest) PassesOn(wait.Request[Result], Result, bool) bool { return true }

// TakesFrom implements wait.Request.
func (*quorumRequest) TakesFrom(*script.Mode) bool { return false }

// attemptOnce attempts all keys. It reports whether there is to be another attempt.
func (q *quorumRequest) attemptOnce() (r Result, again bool) {
	until := time.Now().Add(quorumTimeout)
	if deadline := q.deadline(); deadline.Before(until) {
		until = deadline
	}
	q.results = q.attemptMissing(q.quorum, until)
	if r := q.complete(q.quorum); r.Kind != Taken {
		return r, false
	}
	q.drop(0)
	q.last, again = q.judgeAttempt(q.results, q.quorum)
	return q.last, again
}

// backOff waits after a failed attempt. The result is granted if there is to be another one.
func (q *quorumRequest) backOff() Result {
	if stop := q.pause(time.Duration(rand.Int64N(int64(q.window)))); stop.Kind != Granted {
		return stop
	}
	if q.blockOver() {
		return q.last
	}
	q.window = min(2*q.window, maxBackOff)
	if !q.awaitOne(q.results) {
		q.window = minBackOff
	}
	return Result{Kind: Granted}
}

func (ma *multiRequest) blockOver() bool {
	select {
	case <-ma.carrier.Unblocked():
		return true
	default:
		return !ma.end.IsZero() && !time.Now().Before(ma.end)
	}
}

// pause waits for d, or for what is left of BLOCK. The result is granted if the command goes on.
func (ma *multiRequest) pause(d time.Duration) Result {
	if left := ma.blockLeft(); left > 0 {
		d = min(d, left)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ma.ctx.Done():
		return failed(refusal.Gone)
	case <-ma.carrier.Unblocked():
	case <-timer.C:
	}
	if ma.carrier.Acquirer.Waits.Draining() {
		return failed(refusal.Draining)
	}
	return Result{Kind: Granted}
}

// judgeAttempt decides after an attempt with fewer than n keys what to answer and whether there is
// another attempt. Keys are only taken if at least n of them are either free or held by somebody.
func (ma *multiRequest) judgeAttempt(results []keyResult, n int) (r Result, again bool) {
	least, hopeless := len(ma.keys)-n, 0 // least is how many keys may be missing
	r = Result{Kind: Taken}
	var wrong Result
	errors := 0
	for _, kr := range results {
		if kr.hold != nil || kr.result.Err == nil {
			continue
		}
		if errors++; wrong.Err == nil || kr.result.Kind == Failed {
			wrong = kr.result
		}
		if kr.result.Kind == Failed {
			hopeless++
		}
	}
	if errors > least {
		r = wrong
	}
	if ma.ctx.Err() != nil {
		return failed(refusal.Gone), false
	}
	return r, ma.mayWait() && hopeless <= least && !ma.blockOver()
}

// awaitOne waits about a second for the first key that was taken. Others may be free then. If none
// was taken, Redis did not answer, and it pauses briefly. It reports whether it has a key in hand.
func (ma *multiRequest) awaitOne(results []keyResult) bool {
	s := ma.carrier.Acquirer
	first := -1
	for _, kr := range results {
		if kr.result.Kind == Taken && kr.hold == nil && (first < 0 || kr.index < first) {
			first = kr.index
		}
	}
	if first < 0 {
		ma.pause(s.Waits.Pause(wait.Outcome{State: wait.Busy}))
		return false
	}
	block := s.Waits.Pause(wait.Outcome{})
	if left := ma.blockLeft(); left > 0 {
		block = min(block, left)
	}
	return ma.takeKey(first, block).Kind == Granted
}

// parallelWorkers is how many keys of one command are attempted at the same time.
const parallelWorkers = 64

// attemptMissing attempts all keys that are not in hand, and collects the grants. It returns the
// results. Once enough keys are in hand, it waits only quorumSlack for the others. What is granted
// later is released.
func (ma *multiRequest) attemptMissing(enough int, until time.Time) (results []keyResult) {
	s, inHand, late := ma.carrier.Acquirer, 0, 0
	todo, done := make(chan int, len(ma.holds)), make(chan keyResult, len(ma.holds)) // neither blocks
	for i, h := range ma.holds {
		if h == nil {
			todo <- i
		} else {
			inHand++
		}
	}
	close(todo)
	missing, over := len(todo), make(chan struct{})
	work := func() {
		for i := range todo {
			done <- ma.attemptKey(i, until, over)
		}
	}
	for range min(missing, parallelWorkers) {
		if !s.Tasks.Spawn(work) { // the Service has ended
			work()
		}
	}
	slackOver := make(<-chan time.Time) // never
	for len(results) < missing {
		select {
		case kr := <-done:
			results = append(results, kr)
			if ma.keepResult(kr); kr.hold == nil {
				continue
			}
			if inHand++; inHand == enough {
				slackOver = time.After(quorumSlack)
			}
		case <-slackOver: // take what is there
			late = missing - len(results) - len(done)
			missing -= late
		}
	}
	close(over)
	if late > 0 {
		s.Tasks.Spawn(func() { ma.putBackLate(done, late) })
	}
	return results
}

// putBackLate releases what so many late attempts get.
func (ma *multiRequest) putBackLate(done <-chan keyResult, late int) {
	s := ma.carrier.Acquirer
	for range late {
		if kr := <-done; kr.hold != nil {
			s.Tasks.Spawn(func() { s.PutBack(kr.hold, ma.keys[kr.index].ID) })
		}
	}
}

// attemptKey attempts one key, unless over is closed.
func (ma *multiRequest) attemptKey(i int, until time.Time, over <-chan struct{}) keyResult {
	// in case the attempt panics
	kr := keyResult{index: i, result: unknown(refusal.NotAccepted)}
	select {
	case <-over:
		return kr
	default:
	}
	_ = guard.Do(ma.carrier.Acquirer.Redis.Log, "acquire one of several keys", func() {
		a, r := ma.beginKey(i, until)
		if a == nil {
			kr.result = r
			return
		}
		defer a.unlockOwn()
		kr = ma.concludeKey(i, a, r)
	})
	return kr
}
