package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"leash/internal/nemesis/history"
)

// useHold does one more thing with a held lock. It extends the lease, downgrades a write hold,
// acquires the lock again, or moves the hold.
func (w *worker) useHold(b *belief) {
	switch {
	case !b.lease.IsZero() && w.oneIn(2):
		w.extend(b)
	case b.owner == "" || w.conn == nil:
	case b.mode == "write" && w.oneIn(2):
		w.downgrade(b)
	case w.oneIn(2):
		w.enter(b)
	case w.oneIn(2):
		w.moveHold(b)
	}
}

// extend sets the remaining time of a lease. The new time may be longer or shorter than the old
// one.
func (w *worker) extend(b *belief) {
	d := w.millis(200, 2000)
	reply, sent, err := w.conn.do(time.Now().Add(5*time.Second), "LOCK.EXTEND", b.key, ms(d), "TOKEN", b.token)
	left, wrong := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
	switch {
	case err == nil && wrong == nil && left > 0:
		w.tally.Add("extend", "done")
		// Leash may have dropped the hold just before, while Redis still had it.
		b.maybeLost = b.maybeLost || sent.Add(margin).After(b.lease)
		b.extended(sent, time.Duration(left)*time.Millisecond)
		w.hold(holdGroup{b})
		return
	case err == nil:
		w.tally.Errored("extend", reply)
		w.checkEarlyLoss(b, "LOCK.EXTEND", reply)
	default:
		w.tally.Add("extend", "no reply")
		w.drop()
	}
	// Nobody knows whether the lease was extended. The extension may have shortened it.
	b.lease = history.Earlier(b.lease, sent.Add(d))
	b.cap()
	if w.conn == nil {
		b.connectionEnded()
	}
}

// enterLease is the lease with which an owner acquires its lock again.
const enterLease = 300 * time.Millisecond

// enter acquires the lock once or twice more for the same owner. It releases these counts again.
// Sometimes it stops before all of them are released.
func (w *worker) enter(b *belief) {
	args := []string{"LOCK.ACQUIRE", b.key, "OWNER", b.owner}
	if b.mode != "plain" {
		args = append(args, strings.ToUpper(b.mode))
	}
	if !b.lease.IsZero() {
		args = append(args, "LEASE", ms(enterLease)) // it does not shorten the remaining time
	}
	for range 1 + w.rnd.IntN(2) {
		if !w.counts(b, history.Reacquire, ":"+b.token, args...) {
			return
		}
	}
	if !w.hold(holdGroup{b}) {
		return
	}
	for b.count > 1 && !w.oneIn(4) {
		if !w.counts(b, history.InnerRelease, ":0", "LOCK.RELEASE", b.key, "TOKEN", b.token) {
			return
		}
	}
}

// counts sends a command that changes the count of a hold. It reports whether the command was
// carried out. If that is unknown, the count stays 0.
func (w *worker) counts(b *belief, a history.Action, want string, args ...string) bool {
	name := a.String()
	if w.conn == nil || b.over {
		return false
	}
	was := b.count
	b.count = 0
	reply, sent, err := w.conn.do(time.Now().Add(5*time.Second), args...)
	switch {
	case err != nil:
		w.tally.Add(name, "no reply")
		w.drop()
		w.reattach(holdGroup{b})
		return false
	case a == history.Reacquire && reply[0] != '-' && reply != want && time.Now().Add(margin).After(b.certain):
		// The lease had expired.
		b.connectionEnded()
		if reply[0] == ':' {
			w.releaseNewHold(b, reply, sent)
		}
		return false
	case a == history.Reacquire && reply == "$-1" && w.history.Faults.SlotMoving(b.key, sent, time.Now()):
		// The command changed nothing.
		w.tally.Add(name, "nil while the slot moves")
		b.count = was
		return false
	case a == history.InnerRelease && reply == ":1" && !b.lease.IsZero() && time.Now().Add(margin).After(b.lease):
		// The lease expired before Redis answered.
		w.tally.Add(name, "lease over")
		b.connectionEnded()
		return false
	case reply != want && reply[0] != '-':
		w.tally.Violation(b.key, b.hold, "hold %d of %s: %v was answered %s, not %s", b.hold, b.key, args, reply, want)
		return false
	case reply != want:
		w.tally.Errored(name, reply)
		switch {
		case strings.HasPrefix(reply, "-ERR"), strings.HasPrefix(reply, "-NOREPLICAS"):
			// The command changed nothing.
			b.count = was
		case !strings.HasPrefix(reply, "-LOCKTIMEOUT"):
			w.checkEarlyLoss(b, args[0], reply)
			b.connectionEnded()
			w.drop()
		}
		return false
	}
	w.tally.Add(name, "done")
	b.note(a, 0, sent, time.Now())
	b.logEvent("%s", strings.Join(args, " "))
	w.contradict(b, sent)
	b.answered(sent)
	b.count = was + 1
	if a == history.InnerRelease {
		b.count = was - 1
	}
	return true
}

// releaseNewHold is for an owner that acquired its lock again just after its lease had expired. The
// owner has a new hold then. It releases this hold.
func (w *worker) releaseNewHold(b *belief, reply string, sent time.Time) {
	w.tally.Add(history.Reacquire.String(), "new hold")
	number, _ := strconv.ParseInt(reply[1:], 10, 64)
	r := &request{mode: b.mode, owner: b.owner, ttl: history.TTL}
	if !b.lease.IsZero() {
		r.lease = enterLease
	}
	w.release(holdGroup{believe(w.history, r, b.key, reply[1:], number, sent, time.Now())})
}

// moveHold moves the hold to a new connection. The worker uses this connection from then on.
func (w *worker) moveHold(b *belief) {
	other := w.dial()
	if other == nil {
		return
	}
	if w.attach(other, b, "attach") {
		w.drop() // Leash closes this connection, too
		w.conn = other
		w.hold(holdGroup{b})
		return
	}
	w.leave(other)
	w.checkHeld(holdGroup{b})
}

// downgrade acquires the lock for reading as well, and then releases the write hold.
func (w *worker) downgrade(b *belief) {
	r := &request{mode: "read", owner: b.owner, ttl: history.TTL, key: b.key}
	reply, sent, err := w.conn.do(time.Now().Add(5*time.Second), "LOCK.ACQUIRE", b.key, "READ", "OWNER", b.owner)
	got := time.Now()
	switch {
	case err != nil:
		w.tally.Add("downgrade", "no reply")
		b.connectionEnded()
		w.drop()
		return
	case reply[0] != ':':
		w.tally.Errored("downgrade", reply)
		return
	}
	number, _ := strconv.ParseInt(reply[1:], 10, 64)
	reads := believe(w.history, r, b.key, reply[1:], number, sent, got)
	w.tally.Add("downgrade", "done")
	w.give(w.conn, holdGroup{b}, "LOCK.RELEASE", b.key, "WRITE", "OWNER", b.owner)
	b.ends(time.Now(), time.Time{})
	if w.conn == nil {
		reads.connectionEnded()
		return
	}
	if g := (holdGroup{reads}); w.hold(g) {
		if w.oneIn(4) && w.conn != nil {
			w.upgrade(reads)
		}
		w.release(g)
	}
}

// upgrade asks for the write lock with a read hold. Leash must refuse: the reader would wait for
// itself.
func (w *worker) upgrade(b *belief) {
	reply, _, err := w.conn.do(time.Now().Add(5*time.Second), "LOCK.ACQUIRE", b.key, "WRITE", "OWNER", b.owner)
	switch {
	case err != nil:
		b.connectionEnded()
		w.drop()
	case strings.HasPrefix(reply, ":") && w.history.Explained(b.key, b.since, time.Now()):
		// The read hold was already lost.
		w.tally.Add("upgrade", "new hold")
		b.connectionEnded()
		w.drop()
	case strings.HasPrefix(reply, ":"):
		w.tally.Violation(b.key, b.hold, "a reader of %s was let write: %s", b.key, reply)
	default:
		word, _, _ := strings.Cut(reply, " ")
		w.tally.Add("upgrade", word)
	}
}

// nextID returns an ID that no request of any worker has used.
func (w *worker) nextID() string {
	w.owners++
	return fmt.Sprintf("request:%d.%d", w.number, w.owners)
}
