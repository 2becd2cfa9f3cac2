package main

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// holdGroup is what a client holds together, on one connection.
type holdGroup []*belief

func (g holdGroup) connectionEnded() {
	for _, b := range g {
		b.connectionEnded()
	}
}

func (g holdGroup) expire() {
	for _, b := range g {
		b.expire()
	}
}

func (g holdGroup) answered(sent time.Time) {
	for _, b := range g {
		if !b.silent {
			b.answered(sent)
		}
	}
}

func (g holdGroup) ends(at, done time.Time) {
	for _, b := range g {
		b.ends(at, done)
	}
}

// stays reports whether some of it outlives its connection.
func (g holdGroup) stays() bool {
	for _, b := range g {
		if b.stays || !b.lease.IsZero() {
			return true
		}
	}
	return false
}

// runsOut reports whether some of it is over by itself.
func (g holdGroup) runsOut() bool {
	for _, b := range g {
		if now := time.Now(); !b.lease.IsZero() && now.After(b.lease) || !b.limit.IsZero() && now.After(b.limit) {
			return true
		}
	}
	return false
}

// hold keeps the locks for a while, now and then for longer than a TTL. It reports whether they are
// still believed in.
func (w *worker) hold(g holdGroup) bool {
	length := w.millis(0, 400)
	if w.one(10) {
		length += ttl + time.Second
	}
	for stop := time.Now().Add(length); time.Now().Before(stop); {
		time.Sleep(w.millis(5, 60))
		if g.runsOut() {
			if w.conn.ended() { // before the lease, it may be
				g.connectionEnded()
			}
			g.expire()
			w.tally.add("hold", "lease over")
			w.late(g)
			return false
		}
		if !w.prove(g) {
			return false
		}
	}
	return true
}

// late is what a client may do that does not know that its lease is over: it releases the lock all
// the same, or goes.
func (w *worker) late(g holdGroup) {
	b := g[0]
	if !w.one(2) || b.mode == "permit" || b.mode == "quorum" || len(g) > 1 {
		w.drop()
		return
	}
	reply, _, err := w.conn.do(time.Now().Add(replyPatience), "LOCK.RELEASE", b.key, "TOKEN", b.token, "ALL")
	switch {
	case err != nil:
		w.drop()
	case reply[0] == '-':
		w.tally.errored("late release", reply)
	default:
		w.tally.add("late release", reply)
	}
}

// question is how a client asks whether it still holds b.
func (w *worker) question(b *belief) []string {
	if b.mode == "permit" || b.mode == "quorum" {
		return []string{"PING"}
	}
	switch n := w.rnd.IntN(8); {
	case n == 0:
		return []string{"LOCK.CHECK", b.key, "TOKEN", b.token}
	case n < 4 || b.silent:
		return []string{"LOCK.TTL", b.key, "TOKEN", b.token}
	}
	return []string{"PING"}
}

// prove asks for a proof of the hold. It returns false when the belief is over, and with it, as a
// rule, the connection.
func (w *worker) prove(g holdGroup) bool {
	b := pick(w.rnd, g)
	args := w.question(b)
	patience := b.ttl / 2
	if args[0] == "LOCK.CHECK" { // it asks Redis
		patience = 5 * time.Second
	}
	reply, sent, err := w.conn.do(time.Now().Add(patience), args...)
	switch {
	case isTimeout(err):
		g.expire()
		w.tally.add("hold", "lost: nothing heard")
		w.drop()
		return false
	case err != nil:
		w.drop()
		return w.reattach(g)
	case args[0] == "LOCK.TTL":
		if n, err := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64); err == nil && n > 0 {
			w.contradict(b, sent)
			g.answered(sent)
			b.confirmed(sent, time.Duration(n)*time.Millisecond)
			return true
		}
		return w.lost(g, b, args[0], reply)
	case args[0] == "LOCK.CHECK" && reply == ":0", strings.HasPrefix(reply, "-LOCKLOST"):
		return w.lost(g, b, args[0], reply)
	}
	w.contradict(b, sent)
	g.answered(sent)
	return true
}

// lost ends the beliefs of a client that is told so. Before its time that needs an explanation.
func (w *worker) lost(g holdGroup, b *belief, what, reply string) bool {
	word, _, _ := strings.Cut(strings.TrimPrefix(reply, "-"), " ")
	w.tally.add("hold", "lost: "+what+" "+word)
	w.premature(b, what, reply)
	g.connectionEnded()
	w.drop()
	return false
}

// margin is by how much Leash lets go of a hold before Redis does, at most, with the leases that
// are taken here.
const margin = 120 * time.Millisecond

// losses are the errors that say that a hold is over.
var losses = []string{"-LOCKLOST", "-LOCKNOTHELD", "-SEMNOTHELD"}

// premature blames Leash for the loss of a hold that it said was certain, unless somebody has
// broken it.
func (w *worker) premature(b *belief, what, reply string) {
	if word, _, _ := strings.Cut(reply, " "); reply[0] == '-' && !slices.Contains(losses, word) {
		return // another answer
	}
	if now := time.Now(); !b.over && !b.vague && now.Add(margin).Before(b.certain) && !w.history.explained(b.key, b.since, now) {
		w.tally.violation(b.key, b.hold, "hold %d of %s was certain for %v more, and %s was answered %s", b.hold, b.key, round(b.certain.Sub(now)), what, reply)
	}
}

// reattach is what the owner of a hold does whose connection is gone: it may find the hold, and
// goes on, on another connection.
func (w *worker) reattach(g holdGroup) bool {
	if b := g[0]; len(g) == 1 && b.owner != "" && b.mode != "permit" && !w.one(3) {
		if w.conn = w.dial(); w.conn != nil {
			at, certain := time.Now(), b.certain
			if w.attach(w.conn, b, "reattach") {
				if at.Add(margin).After(certain) {
					b.revived = at
				}
				return true
			}
			w.drop()
		}
	}
	g.connectionEnded()
	w.tally.add("hold", "lost: connection ended")
	return false
}

// attach makes c the connection that carries b.
func (w *worker) attach(c *client, b *belief, what string) bool {
	args := []string{"LOCK.ATTACH", b.key, "OWNER", b.owner, "TOKEN", b.token}
	if b.mode == "read" || b.mode == "write" {
		args = append(args, strings.ToUpper(b.mode))
	}
	reply, sent, err := c.do(time.Now().Add(5*time.Second), args...)
	switch {
	case err != nil:
		w.tally.add(what, "no reply")
	case reply == ":"+b.token:
		w.contradict(b, sent)
		b.answered(sent)
		b.tell("%s by %s", what, c)
		w.tally.add(what, "attached")
		return true
	default:
		w.tally.errored(what, reply)
	}
	return false
}
