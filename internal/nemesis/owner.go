package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// useHold is what a client can do beside with a lock that it holds.
func (w *worker) useHold(b *belief) {
	switch {
	case !b.lease.IsZero() && w.one(2):
		w.extend(b)
	case b.owner == "" || w.conn == nil:
	case b.mode == "write" && w.one(2):
		w.downgrade(b)
	case w.one(2):
		w.enter(b)
	case w.one(2):
		w.moveHold(b)
	}
}

// extend sets how long a lease lasts: more, or less.
func (w *worker) extend(b *belief) {
	d := w.millis(200, 2000)
	reply, sent, err := w.conn.do(time.Now().Add(5*time.Second), "LOCK.EXTEND", b.key, ms(d), "TOKEN", b.token)
	left, wrong := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
	switch {
	case err == nil && wrong == nil && left > 0:
		w.tally.add("extend", "done")
		// Leash had let go of it, and Redis had not
		b.vague = b.vague || sent.Add(margin).After(b.lease)
		b.extended(sent, time.Duration(left)*time.Millisecond)
		w.hold(holdGroup{b})
		return
	case err == nil:
		w.tally.errored("extend", reply)
		w.premature(b, "LOCK.EXTEND", reply)
	default:
		w.tally.add("extend", "no reply")
		w.drop()
	}
	// it may have been extended, and that may have made it shorter
	b.lease = earlier(b.lease, sent.Add(d))
	b.cap()
	if w.conn == nil {
		b.connectionEnded()
	}
}

// enterLease is the lease with which a lease is taken once more.
const enterLease = 300 * time.Millisecond

// enter takes the lock once more, or twice, and gives those counts back but now and then one.
func (w *worker) enter(b *belief) {
	args := []string{"LOCK.ACQUIRE", b.key, "OWNER", b.owner}
	if b.mode != "plain" {
		args = append(args, strings.ToUpper(b.mode))
	}
	if !b.lease.IsZero() {
		args = append(args, "LEASE", ms(enterLease)) // which does not shorten what remains
	}
	for range 1 + w.rnd.IntN(2) {
		if !w.counts(b, again, ":"+b.token, args...) {
			return
		}
	}
	if !w.hold(holdGroup{b}) {
		return
	}
	for b.count > 1 && !w.one(4) {
		if !w.counts(b, inner, ":0", "LOCK.RELEASE", b.key, "TOKEN", b.token) {
			return
		}
	}
}

// counts sends what changes the count of a hold. It returns false when nobody knows whether it has;
// then the count is not known.
func (w *worker) counts(b *belief, a action, want string, args ...string) bool {
	name := "enter"
	if a == inner {
		name = "inner release"
	}
	if w.conn == nil || b.over {
		return false
	}
	was := b.count
	b.count = 0
	reply, sent, err := w.conn.do(time.Now().Add(5*time.Second), args...)
	switch {
	case err != nil:
		w.tally.add(name, "no reply")
		w.drop()
		w.reattach(holdGroup{b})
		return false
	case a == again && reply[0] != '-' && reply != want && time.Now().Add(margin).After(b.certain):
		// its lease was over
		b.connectionEnded()
		if reply[0] == ':' {
			w.releaseNewHold(b, reply, sent)
		}
		return false
	case a == again && reply == "$-1" && w.history.faults.slotMoving(b.key, sent, time.Now()):
		// nothing was done
		w.tally.add(name, "nil while the slot moves")
		b.count = was
		return false
	case a == inner && reply == ":1" && !b.lease.IsZero() && time.Now().Add(margin).After(b.lease):
		// when Redis answered at last, the lease was over
		w.tally.add(name, "over by then")
		b.connectionEnded()
		return false
	case reply != want && reply[0] != '-':
		w.tally.violation(b.key, b.hold, "hold %d of %s: %v was answered %s, not %s", b.hold, b.key, args, reply, want)
		return false
	case reply != want:
		w.tally.errored(name, reply)
		switch {
		case strings.HasPrefix(reply, "-ERR"), strings.HasPrefix(reply, "-NOREPLICAS"):
			// nothing was done
			b.count = was
		case !strings.HasPrefix(reply, "-LOCKTIMEOUT"):
			w.premature(b, args[0], reply)
			b.connectionEnded()
			w.drop()
		}
		return false
	}
	w.tally.add(name, "done")
	b.note(a, 0, sent, time.Now())
	b.tell("%s", strings.Join(args, " "))
	w.contradict(b, sent)
	b.answered(sent)
	b.count = was + 1
	if a == inner {
		b.count = was - 1
	}
	return true
}

// releaseNewHold is what an owner does that took a lock once more when its lease was just over, and
// so has a new hold: it gives it back.
func (w *worker) releaseNewHold(b *belief, reply string, sent time.Time) {
	w.tally.add("enter", "anew")
	number, _ := strconv.ParseInt(reply[1:], 10, 64)
	r := &request{mode: b.mode, owner: b.owner, ttl: ttl}
	if !b.lease.IsZero() {
		r.lease = enterLease
	}
	w.release(holdGroup{w.history.believe(r, b.key, reply[1:], number, sent, time.Now())})
}

// moveHold takes the hold along to another connection, which is the worker's from then on.
func (w *worker) moveHold(b *belief) {
	other := w.dial()
	if other == nil {
		return
	}
	if w.attach(other, b, "attach") {
		w.drop() // Leash closes it, too
		w.conn = other
		w.hold(holdGroup{b})
		return
	}
	w.leave(other)
	w.prove(holdGroup{b})
}

// downgrade takes the lock for reading, too, and gives the writing up.
func (w *worker) downgrade(b *belief) {
	r := &request{mode: "read", owner: b.owner, ttl: ttl, key: b.key}
	reply, sent, err := w.conn.do(time.Now().Add(5*time.Second), "LOCK.ACQUIRE", b.key, "READ", "OWNER", b.owner)
	got := time.Now()
	switch {
	case err != nil:
		w.tally.add("downgrade", "no reply")
		b.connectionEnded()
		w.drop()
		return
	case reply[0] != ':':
		w.tally.errored("downgrade", reply)
		return
	}
	number, _ := strconv.ParseInt(reply[1:], 10, 64)
	reads := w.history.believe(r, b.key, reply[1:], number, sent, got)
	w.tally.add("downgrade", "done")
	w.give(w.conn, holdGroup{b}, "LOCK.RELEASE", b.key, "WRITE", "OWNER", b.owner)
	b.ends(time.Now(), time.Time{})
	if w.conn == nil {
		reads.connectionEnded()
		return
	}
	if g := (holdGroup{reads}); w.hold(g) {
		if w.one(4) && w.conn != nil {
			w.upgrade(reads)
		}
		w.release(g)
	}
}

// upgrade asks what is refused: who reads would wait for itself.
func (w *worker) upgrade(b *belief) {
	reply, _, err := w.conn.do(time.Now().Add(5*time.Second), "LOCK.ACQUIRE", b.key, "WRITE", "OWNER", b.owner)
	switch {
	case err != nil:
		b.connectionEnded()
		w.drop()
	case strings.HasPrefix(reply, ":") && w.history.explained(b.key, b.since, time.Now()):
		// it was no reader any more
		w.tally.add("upgrade", "anew")
		b.connectionEnded()
		w.drop()
	case strings.HasPrefix(reply, ":"):
		w.tally.violation(b.key, b.hold, "a reader of %s was let write: %s", b.key, reply)
	default:
		word, _, _ := strings.Cut(reply, " ")
		w.tally.add("upgrade", word)
	}
}

// nextID is an ID that no request of any worker had.
func (w *worker) nextID() string {
	w.owners++
	return fmt.Sprintf("request:%d.%d", w.number, w.owners)
}
