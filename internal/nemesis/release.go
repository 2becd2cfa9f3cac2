package main

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// release ends the holds in a random way.
func (w *worker) release(g holdGroup) {
	b := g[0]
	if b.over || w.conn == nil {
		g.connectionEnded()
		return
	}
	if w.oneIn(6) {
		w.endHolds(g)
		return
	}
	args := w.releaseArgs(g)
	if portable(args) && w.oneIn(4) { // on another connection, perhaps to the other Leash
		other := w.dial()
		if other != nil {
			w.give(other, g, args...)
			w.leave(other)
			return
		}
	}
	w.give(w.conn, g, args...)
}

// part ends the holds without a release. It closes the connection, or sends QUIT or RESET.
func (w *worker) endHolds(g holdGroup) {
	at, word := time.Now(), pick(w.rnd, []string{"", "QUIT", "RESET"})
	if word == "" {
		g.ends(at, time.Time{})
		w.tally.Add("release", "by closing")
		w.drop()
		return
	}
	want := map[string]string{"QUIT": "+OK", "RESET": "+RESET"}[word]
	reply, _, err := w.conn.do(at.Add(replyPatience), word)
	var done time.Time
	switch got := time.Now(); {
	case err != nil:
		w.tally.Add("release", "by "+word+", no reply")
	case reply[0] == '-':
		w.tally.Errored("release", reply)
	case reply != want:
		w.tally.Violation(g[0].key, g[0].hold, "%s was answered %q", word, reply)
	default:
		w.tally.Add("release", "by "+word)
		if word == "RESET" && got.Sub(at) < resetSoon && !g.outlivesConnection() && w.history.Faults.Disturbed(at, got) == 0 {
			done = got
		}
	}
	g.ends(at, done)
	if err != nil || word == "QUIT" {
		w.drop()
	}
}

// resetSoon is the limit for a fast reply to RESET. Before a slower reply, Leash may have stopped
// waiting for the releases.
const resetSoon = 500 * time.Millisecond

// portable reports whether a release may be sent on any connection.
func portable(args []string) bool {
	return args[0] == "SEM.RELEASE" || slices.Contains(args, "TOKEN") || slices.Contains(args, "TOKENS") || slices.Contains(args, "OWNER")
}

// releaseArgs returns a command that releases g.
func (w *worker) releaseArgs(g holdGroup) []string {
	b := g[0]
	switch {
	case b.mode == "permit":
		args := []string{"SEM.RELEASE", b.key}
		for _, b := range g {
			args = append(args, b.token)
		}
		return args
	case b.mode == "quorum" || len(g) > 1:
		return w.mrelease(g)
	}
	args := []string{"LOCK.RELEASE", b.key}
	if b.mode == "read" || b.mode == "write" {
		args = append(args, strings.ToUpper(b.mode))
	}
	switch {
	case b.owner != "" && w.oneIn(2):
		args = append(args, "OWNER", b.owner)
		if w.oneIn(2) {
			args = append(args, "ID", w.nextID())
		}
	case !w.oneIn(3) || b.count != 1:
		args = append(args, "TOKEN", b.token)
	}
	if b.count != 1 {
		args = append(args, "ALL")
	}
	return args
}

// give sends a release on c. A release with an ID is sent again if no reply comes. The belief ends
// when the release is sent first.
func (w *worker) give(c *client, g holdGroup, args ...string) {
	b, at := g[0], time.Now()
	b.logEvent("released by %s with %q", c, args)
	reply, _, err := c.do(at.Add(replyPatience), args...)
	for range 2 {
		if err == nil || len(args) < 5 || args[len(args)-2] != "ID" && args[len(args)-3] != "ID" {
			break
		}
		other := w.dial()
		if other == nil {
			break
		}
		w.tally.Add("release", "repeated")
		reply, _, err = other.do(time.Now().Add(replyPatience), args...)
		w.leave(other)
	}
	got := time.Now()
	b.logEvent("that was answered %q, %v", reply, err)
	// If the worker's own connection has ended, Leash may have released the hold already.
	ended := c != w.conn && w.conn.ended()
	want := ":" + strconv.Itoa(released(g))
	switch {
	case err != nil:
		// If Leash did not carry out the release, the hold lasts as long as its connection.
		w.tally.Add("release", "no reply")
		w.drop()
	case reply == want:
		w.tally.Add("release", "done")
		g.ends(at, got)
		return
	case reply[0] == '-':
		w.tally.Errored("release", reply)
		if !ended || !strings.HasPrefix(reply, "-LOCKNOTHELD") && !strings.HasPrefix(reply, "-SEMNOTHELD") {
			w.checkEarlyLoss(g.about(reply), args[0], reply)
		}
		if strings.Contains(reply, "nothing was done") { // the hold lasts as long as its connection
			w.drop()
		}
	default:
		w.tally.Add("release", reply)
		if b.mode == "permit" && !ended { // fewer permits than the client held
			w.checkEarlyLoss(b, args[0], reply)
		}
		if b.mode != "quorum" && len(g) == 1 && b.mode != "permit" {
			w.tally.Violation(b.key, b.hold, "hold %d of %s with count %d: %v was answered %s", b.hold, b.key, b.count, args, reply)
		}
	}
	g.ends(at, time.Time{})
}

// released returns the reply to a release of the whole of g.
func released(g holdGroup) int {
	if g[0].mode == "quorum" {
		return len(g[0].parts)
	}
	return len(g)
}
