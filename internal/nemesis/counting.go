package main

import (
	"strconv"
	"strings"
	"time"

	"leash/internal/nemesis/history"
)

// count uses the current counter or latch. If there is none, it makes one.
func (w *worker) count(kind string) {
	all := &w.bed.counters
	c := all.enter(kind)
	if c == nil {
		c = w.create(kind)
	}
	if w.conn != nil && kind == "latch" {
		w.latch(c)
	} else if w.conn != nil {
		w.take(c)
	}
	if all.leave(c) && w.conn != nil {
		w.read(c)
	}
}

// create makes a counter. Sometimes it sends a second request to make it, which has no effect. If
// the counter is known to exist, other clients use it from then on.
func (w *worker) create(kind string) *counter {
	c := w.bed.counters.make(kind, 1+w.rnd.IntN(2))
	name := "SEM.INIT"
	if kind == "latch" {
		name = "LATCH.SET"
	}
	for again := range 2 {
		n := 1 + w.rnd.IntN(4)
		if _, ok := w.ask(c, history.Op{Action: history.Set, N: int64(n)}, 0, name, c.key, strconv.Itoa(n)); !ok {
			return c
		}
		if again == 0 && !w.oneIn(4) {
			break
		}
	}
	w.bed.counters.publish(c)
	return c
}

// take takes from a counter and gives back what it took.
func (w *worker) take(c *counter) {
	if w.oneIn(8) {
		w.read(c)
		return
	}
	n := 1 + w.rnd.IntN(c.most)
	count := strconv.Itoa(n)
	args, wait := []string{"SEM.TAKE", c.key, count}, time.Duration(0)
	if !w.oneIn(4) {
		wait = w.millis(1, 3000)
		args = append(args, "BLOCK", ms(wait))
	}
	done := func() {}
	// If clients take more than one, this one may wait behind a client that wants more than is
	// left.
	if wait > 0 && c.most == 1 {
		done = w.audit.waiting(c.key)
	}
	taken, ok := w.ask(c, history.Op{Action: history.Take, N: int64(n)}, wait, args...)
	done()
	if !ok || taken == 0 {
		return
	}
	time.Sleep(w.millis(0, 200))
	w.ask(c, history.Op{Action: history.Give, N: int64(n)}, 0, "SEM.GIVE", c.key, count)
}

// latch counts a latch down, waits for it to be at zero, or reads it.
func (w *worker) latch(c *counter) {
	switch {
	case w.oneIn(8):
		w.read(c)
	case w.oneIn(3):
		if left, ok := w.ask(c, history.Op{Action: history.CountDown}, 0, "LATCH.DOWN", c.key); ok && left == 0 {
			w.bed.counters.open(c)
		}
	default:
		w.await(c)
	}
}

// await waits for a latch. When the latch reaches zero, Leash must soon tell the client. If the
// latch was at zero before the request, Leash must answer at once.
func (w *worker) await(c *counter) {
	args, wait := []string{"LATCH.AWAIT", c.key}, time.Duration(0)
	if !w.oneIn(4) {
		wait = w.millis(1, 4000)
		args = append(args, "BLOCK", ms(wait))
	}
	sent := time.Now()
	open, ok := w.ask(c, history.Op{Action: history.Await}, wait, args...)
	got, opened := time.Now(), w.bed.counters.openedAt(c)
	// A new master may not know that the latch was at zero.
	if !ok || opened.IsZero() || got.Before(opened) || w.history.Explained(c.key, opened, got) {
		return
	}
	since := history.Later(opened, sent)
	rough := w.history.Faults.Disturbed(since, got)
	if late := got.Sub(since) - replySlack; late > rough {
		w.tally.Violation(c.key, 0, "%s was at zero, and %v was not told for %v", c.key, args, history.Round(got.Sub(since)))
	}
	if open == 0 && opened.Before(sent) && rough == 0 {
		w.tally.Violation(c.key, 0, "%s was at zero, and %v was answered 0", c.key, args)
	}
}

// read asks for the count.
func (w *worker) read(c *counter) {
	args := []string{"SEM.GIVE", c.key, "0"}
	if c.kind == "latch" {
		args = []string{"LATCH.GET", c.key}
	}
	w.ask(c, history.Op{Action: history.Read}, 0, args...)
}

// ask sends a request about a counter. It adds what is known of the request to the history. ok is
// false if the reply is not a number.
func (w *worker) ask(c *counter, o history.Op, wait time.Duration, args ...string) (n int64, ok bool) {
	kind := c.kind + " " + o.Action.String()
	o.Hold = w.history.NewRequest()
	reply, sent, err := w.conn.do(time.Now().Add(wait+replyPatience), args...)
	got := time.Now()
	w.checkLateness(c.key, args, wait+replySlack, sent, got, err)
	n, wrong := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
	switch {
	case err != nil:
		w.tally.Add(kind, "no reply")
		w.drop()
	case strings.HasPrefix(reply, "-ERR"): // nothing was done
		w.tally.Errored(kind, reply)
		return 0, false
	case reply[0] == '-':
		w.tally.Errored(kind, reply)
	case wrong != nil || reply[0] != ':':
		w.tally.Violation(c.key, 0, "%v was answered %q", args, reply)
	case n == 0 && (o.Action == history.Take || o.Action == history.Await): // the wait timed out
		w.tally.Add(kind, "0")
		return 0, true
	default:
		w.tally.Add(kind, "done")
		o.Left = n
		w.history.Add(c.key, o, sent, got)
		return n, true
	}
	if o.Action == history.Read || o.Action == history.Await {
		return 0, false
	}
	w.bed.counters.retire(c)
	o.Unknown = true
	w.history.Add(c.key, o, sent, time.Time{})
	if o.Action == history.Take { // if the client is gone, Leash gives back what it took
		o.Action = history.GiveBack
		w.history.Add(c.key, o, sent, time.Time{})
	}
	return 0, false
}
