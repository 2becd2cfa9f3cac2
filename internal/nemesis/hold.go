package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"leash/internal/nemesis/history"
)

// holdGroup is the holds that a client has together on one connection.
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
		if !b.errorOnLoss {
			b.answered(sent)
		}
	}
}

func (g holdGroup) ends(at, done time.Time) {
	for _, b := range g {
		b.ends(at, done)
	}
}

// outlivesConnection reports whether one of the holds may outlive the connection.
func (g holdGroup) outlivesConnection() bool {
	for _, b := range g {
		if b.outlivesConnection || !b.lease.IsZero() {
			return true
		}
	}
	return false
}

// expired reports whether the lease or the MAXHOLD of one of the holds is over.
func (g holdGroup) expired() bool {
	for _, b := range g {
		if now := time.Now(); !b.lease.IsZero() && now.After(b.lease) || !b.limit.IsZero() && now.After(b.limit) {
			return true
		}
	}
	return false
}

// hold keeps the locks for a while, sometimes for longer than a TTL. It reports whether the client
// still believes in them.
func (w *worker) hold(g holdGroup) bool {
	length := w.millis(0, 400)
	if w.oneIn(10) {
		length += history.TTL + time.Second
	}
	for stop := time.Now().Add(length); time.Now().Before(stop); {
		time.Sleep(w.millis(5, 60))
		if g.expired() {
			if w.conn.ended() { // perhaps before the lease was over
				g.connectionEnded()
			}
			g.expire()
			w.tally.Add("hold", "lease over")
			w.releaseLate(g)
			return false
		}
		if !w.checkHeld(g) {
			return false
		}
	}
	return true
}

// releaseLate ends a hold after its lease, as a client does that does not look at its clock. It
// sends a release, or closes the connection.
func (w *worker) releaseLate(g holdGroup) {
	b := g[0]
	if !w.oneIn(2) || b.mode == "permit" || b.mode == "quorum" || len(g) > 1 {
		w.drop()
		return
	}
	reply, _, err := w.conn.do(time.Now().Add(replyPatience), "LOCK.RELEASE", b.key, "TOKEN", b.token, "ALL")
	switch {
	case err != nil:
		w.drop()
	case reply[0] == '-':
		w.tally.Errored("late release", reply)
	default:
		w.tally.Add("late release", reply)
	}
}

// question returns the command with which a client asks whether it still holds b.
func (w *worker) question(b *belief) []string {
	if b.mode == "permit" || b.mode == "quorum" {
		return []string{"PING"}
	}
	switch n := w.rnd.IntN(8); {
	case n == 0:
		return []string{"LOCK.CHECK", b.key, "TOKEN", b.token}
	case n < 4 || b.errorOnLoss:
		return []string{"LOCK.TTL", b.key, "TOKEN", b.token}
	}
	return []string{"PING"}
}

// checkHeld asks Leash whether the client still holds one of g. It returns false when the belief is
// over. Then the connection is usually closed as well.
func (w *worker) checkHeld(g holdGroup) bool {
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
		w.tally.Add("hold", "lost: no reply")
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

// lost ends the beliefs of a client that is told of a loss. An early loss needs an explanation.
func (w *worker) lost(g holdGroup, b *belief, what, reply string) bool {
	word, _, _ := strings.Cut(strings.TrimPrefix(reply, "-"), " ")
	w.tally.Add("hold", "lost: "+what+" "+word)
	w.checkEarlyLoss(b, what, reply)
	g.connectionEnded()
	w.drop()
	return false
}

// margin is the longest time by which Leash gives a hold up before Redis does, with the leases of
// these clients.
const margin = 120 * time.Millisecond

// lossErrors are the errors that say that a hold is over.
var lossErrors = []string{"-LOCKLOST", "-LOCKNOTHELD", "-SEMNOTHELD"}

// checkEarlyLoss records a violation if a reply says that b is lost, although Leash had called it
// certain until later. It is no violation if Redis may have forgotten the hold.
func (w *worker) checkEarlyLoss(b *belief, what, reply string) {
	if word, _, _ := strings.Cut(reply, " "); reply[0] == '-' && !slices.Contains(lossErrors, word) {
		return // the error does not say that the hold is over
	}
	if now := time.Now(); !b.over && !b.maybeLost && now.Add(margin).Before(b.certain) && !w.history.Explained(b.key, b.since, now) {
		w.tally.Violation(b.key, b.hold, "hold %d of %s was certain for %v more, and %s was answered %s", b.hold, b.key, history.Round(b.certain.Sub(now)), what, reply)
	}
}

// about is the hold that an error is about: LOCKLOST names the key of one of several.
func (g holdGroup) about(reply string) *belief {
	lost, _ := strings.CutPrefix(reply, "-LOCKLOST ")
	key, _, _ := strings.Cut(lost, " ")
	for _, b := range g {
		if b.key == key {
			return b
		}
	}
	return g[0]
}

// reattach is for a client whose connection is gone. If the hold has an owner, it may attach the
// hold to another connection and go on. It reports whether that succeeded.
func (w *worker) reattach(g holdGroup) bool {
	if b := g[0]; len(g) == 1 && b.owner != "" && b.mode != "permit" && !w.oneIn(3) {
		if w.conn = w.dial(); w.conn != nil {
			at, certain := time.Now(), b.certain
			if w.attach(w.conn, b, "reattach") {
				if at.Add(margin).After(certain) {
					b.reattached = at
				}
				return true
			}
			w.drop()
		}
	}
	g.connectionEnded()
	w.tally.Add("hold", "lost: connection ended")
	return false
}

// attach makes c the carrier of b.
func (w *worker) attach(c *client, b *belief, what string) bool {
	args := []string{"LOCK.ATTACH", b.key, "OWNER", b.owner, "TOKEN", b.token}
	if b.mode == "read" || b.mode == "write" {
		args = append(args, strings.ToUpper(b.mode))
	}
	reply, sent, err := c.do(time.Now().Add(5*time.Second), args...)
	switch {
	case err != nil:
		w.tally.Add(what, "no reply")
	case reply == ":"+b.token:
		w.contradict(b, sent)
		b.answered(sent)
		b.logEvent("%s by %s", what, c)
		w.tally.Add(what, "attached")
		return true
	default:
		w.tally.Errored(what, reply)
	}
	return false
}
