package main

import (
	"strconv"
	"strings"
	"time"
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
		if _, ok := w.ask(c, op{action: set, n: int64(n)}, 0, name, c.key, strconv.Itoa(n)); !ok {
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
	taken, ok := w.ask(c, op{action: take, n: int64(n)}, wait, args...)
	done()
	if !ok || taken == 0 {
		return
	}
	time.Sleep(w.millis(0, 200))
	w.ask(c, op{action: give, n: int64(n)}, 0, "SEM.GIVE", c.key, count)
}

// latch counts a latch down, waits for it to be at zero, or reads it.
func (w *worker) latch(c *counter) {
	switch {
	case w.oneIn(8):
		w.read(c)
	case w.oneIn(3):
		if left, ok := w.ask(c, op{action: countDown}, 0, "LATCH.DOWN", c.key); ok && left == 0 {
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
	open, ok := w.ask(c, op{action: await}, wait, args...)
	got, opened := time.Now(), w.bed.counters.openedAt(c)
	// A new master may not know that the latch was at zero.
	if !ok || opened.IsZero() || got.Before(opened) || w.history.explained(c.key, opened, got) {
		return
	}
	since := later(opened, sent)
	rough := w.history.faults.disturbed(since, got)
	if late := got.Sub(since) - replySlack; late > rough {
		w.tally.violation(c.key, 0, "%s was at zero, and %v was not told for %v", c.key, args, round(got.Sub(since)))
	}
	if open == 0 && opened.Before(sent) && rough == 0 {
		w.tally.violation(c.key, 0, "%s was at zero, and %v was answered 0", c.key, args)
	}
}

// read asks for the count.
func (w *worker) read(c *counter) {
	args := []string{"SEM.GIVE", c.key, "0"}
	if c.kind == "latch" {
		args = []string{"LATCH.GET", c.key}
	}
	w.ask(c, op{action: read}, 0, args...)
}

// ask sends a request about a counter. It adds what is known of the request to the history. ok is
// false if the reply is not a number.
func (w *worker) ask(c *counter, o op, wait time.Duration, args ...string) (n int64, ok bool) {
	kind := c.kind + " " + o.action.String()
	o.hold = w.history.newRequest()
	reply, sent, err := w.conn.do(time.Now().Add(wait+replyPatience), args...)
	got := time.Now()
	w.checkLateness(c.key, args, wait+replySlack, sent, got, err)
	n, wrong := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
	switch {
	case err != nil:
		w.tally.add(kind, "no reply")
		w.drop()
	case strings.HasPrefix(reply, "-ERR"): // nothing was done
		w.tally.errored(kind, reply)
		return 0, false
	case reply[0] == '-':
		w.tally.errored(kind, reply)
	case wrong != nil || reply[0] != ':':
		w.tally.violation(c.key, 0, "%v was answered %q", args, reply)
	case n == 0 && (o.action == take || o.action == await): // the wait timed out
		w.tally.add(kind, "0")
		return 0, true
	default:
		w.tally.add(kind, "done")
		o.left = n
		w.history.add(c.key, o, sent, got)
		return n, true
	}
	if o.action == read || o.action == await {
		return 0, false
	}
	w.bed.counters.retire(c)
	o.unknown = true
	w.history.add(c.key, o, sent, time.Time{})
	if o.action == take { // if the client is gone, Leash gives back what it took
		o.action = giveBack
		w.history.add(c.key, o, sent, time.Time{})
	}
	return 0, false
}
