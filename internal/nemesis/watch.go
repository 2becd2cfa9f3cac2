package main

import (
	"strings"
	"time"
)

// watch waits on another connection, perhaps of the other Leash, for the loss of b.
func (w *worker) watch(b *belief) {
	leash := w.rnd.IntN(len(w.bed.fronts))
	block := w.millis(500, 5000)
	w.watches.Go(func() {
		c, err := w.bed.dial(leash)
		if err != nil {
			return
		}
		defer c.Close()
		reply, sent, err := c.do(time.Now().Add(block+replyPatience), "LOCK.AWAITLOSS", b.key, "TOKEN", b.token, "BLOCK", ms(block))
		got := time.Now()
		switch {
		case err != nil:
			w.tally.add("awaitloss", "no reply")
			w.overdue(b, sent, got, block)
			return
		case strings.HasPrefix(reply, "-"):
			w.tally.errored("awaitloss", reply)
			return
		case reply == "$-1" && got.Sub(sent) >= block:
			w.tally.add("awaitloss", "in time")
			w.overdue(b, sent, got, block)
			return
		case reply == "$-1":
			reply = "ended"
		default:
			reply = "lost: " + tokensOf(reply)[0]
		}
		w.tally.add("awaitloss", reply)
		w.overdue(b, sent, got, block)
		b.tell("AWAITLOSS, asked %v ago: %s", got.Sub(sent), reply)
		b.told.Store(&endNotice{reply, got})
	})
}

// endNotice is how a hold has ended, as AWAITLOSS said.
type endNotice struct {
	what string
	at   time.Time
}

// overdue blames Leash when AWAITLOSS, asked at sent, has said nothing until got, though its time
// or the hold's was over long ago.
func (w *worker) overdue(b *belief, sent, got time.Time, block time.Duration) {
	since := sent.Add(block)
	if gone := w.history.goneBy(b.parts[0]); !gone.IsZero() {
		since = earlier(since, gone)
	}
	since = later(since, sent)
	if late := got.Sub(since) - replySlack; late > w.history.faults.disturbed(since, got) {
		w.tally.violation(b.key, b.hold, "hold %d of %s: AWAITLOSS was late by %v", b.hold, b.key, round(got.Sub(since)))
	}
}

// silent is how AWAITLOSS tells of a hold that Leash let go of since Redis did not answer until its
// lease might be over.
const silent = "lost: silence"

// contradict blames Leash when it said that b has ended, and what was asked at sent proves b. That
// Leash lets go of a lease a little before Redis does is none, also when the lease is extended in
// that moment (vague); nor is it that the owner, whose connection Leash closed then, took the hold
// up anew in that moment, with which it is certain for longer again.
func (w *worker) contradict(b *belief, sent time.Time) {
	n := b.told.Load()
	// it may have been late by a clock, and in time by the next step
	if n == nil || b.vague || !sent.After(n.at) || w.history.explained(b.key, b.since, sent) {
		return
	}
	if n.what == silent && !b.revived.IsZero() && n.at.Sub(b.revived) < reportTolerance+w.history.faults.disturbed(b.revived, n.at) {
		b.told.CompareAndSwap(n, nil)
		return
	}
	if n.at.Add(margin).Before(b.certain) && b.told.CompareAndSwap(n, nil) {
		w.tally.violation(b.key, b.hold, "hold %d of %s has ended, said AWAITLOSS (%s), and %v later it was there", b.hold, b.key, n.what, sent.Sub(n.at))
	}
}
