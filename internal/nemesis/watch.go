package main

import (
	"strings"
	"time"

	"leash/internal/nemesis/history"
)

// watch waits for the loss of b with LOCK.AWAITLOSS. It does so on another connection, perhaps to
// the other Leash.
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
			w.tally.Add("awaitloss", "no reply")
			w.overdue(b, sent, got, block)
			return
		case strings.HasPrefix(reply, "-"):
			w.tally.Errored("awaitloss", reply)
			return
		case reply == "$-1" && got.Sub(sent) >= block:
			w.tally.Add("awaitloss", "in time")
			w.overdue(b, sent, got, block)
			return
		case reply == "$-1":
			reply = "ended"
		default:
			reply = "lost: " + tokensOf(reply)[0]
		}
		w.tally.Add("awaitloss", reply)
		w.overdue(b, sent, got, block)
		b.logEvent("AWAITLOSS, asked %v ago: %s", got.Sub(sent), reply)
		b.endNotice.Store(&endNotice{reply, got})
	})
}

// endNotice is what AWAITLOSS replied about the end of a hold.
type endNotice struct {
	what string
	at   time.Time
}

// overdue records a violation if a reply to AWAITLOSS was late. The reply was due when block was
// over, or when the hold had ended. AWAITLOSS was sent at sent, and its reply came at got.
func (w *worker) overdue(b *belief, sent, got time.Time, block time.Duration) {
	since := sent.Add(block)
	if gone := w.history.LatestEnd(b.parts[0]); !gone.IsZero() {
		since = history.Earlier(since, gone)
	}
	since = history.Later(since, sent)
	if late := got.Sub(since) - replySlack; late > w.history.Faults.Disturbed(since, got) {
		w.tally.Violation(b.key, b.hold, "hold %d of %s: AWAITLOSS was late by %v", b.hold, b.key, history.Round(got.Sub(since)))
	}
}

// silent is the reply of AWAITLOSS if Redis did not answer Leash for so long that the lease might
// be over. Leash drops the hold then.
const silent = "lost: silence"

// contradict records a violation if AWAITLOSS said that b has ended, and the reply to a question
// sent at sent proves that b is held. Two cases are no violation:
//
//   - Leash drops a lease a little before Redis does. This is so even if the lease is extended at
//     that moment (maybeLost).
//   - Leash closed the owner's connection when it dropped the hold. The owner reattached at that
//     moment, and the hold is certain for longer again (reattached).
func (w *worker) contradict(b *belief, sent time.Time) {
	n := b.endNotice.Load()
	// One step of a clock may have ended the lease, and the next step may have undone that.
	if n == nil || b.maybeLost || !sent.After(n.at) || w.history.Explained(b.key, b.since, sent) {
		return
	}
	if n.what == silent && !b.reattached.IsZero() && n.at.Sub(b.reattached) < history.ReportTolerance+w.history.Faults.Disturbed(b.reattached, n.at) {
		b.endNotice.CompareAndSwap(n, nil)
		return
	}
	if n.at.Add(margin).Before(b.certain) && b.endNotice.CompareAndSwap(n, nil) {
		w.tally.Violation(b.key, b.hold, "hold %d of %s has ended, said AWAITLOSS (%s), and %v later it was there", b.hold, b.key, n.what, sent.Sub(n.at))
	}
}
