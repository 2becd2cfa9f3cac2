package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"leash/internal/nemesis/history"
)

const (
	replyPatience = 10 * time.Second // a client gives up this long after its BLOCK time
	replySlack    = 4 * time.Second  // a reply may be late by this, not counting the time of faults

	endlessPatience = 50 * time.Second // how long a client waits with BLOCK 0
	// A request with BLOCK 0 must be answered within this time, not counting faults. The other
	// clients release their locks much sooner.
	endlessSlack = 20 * time.Second
)

// worker is a client that acquires, holds and releases locks until its context ends.
type worker struct {
	number  int
	bed     *testbed
	rnd     *rand.Rand
	history *history.History
	tally   *history.Tally
	audit   *audit
	owners  int
	conn    *client        // the connection in use; nil for none
	watches sync.WaitGroup // the goroutines that wait for the loss of a hold
}

func (w *worker) run(ctx context.Context) {
	defer w.watches.Wait()
	for ctx.Err() == nil {
		if w.conn = w.dial(); w.conn == nil {
			continue
		}
		for rounds := 1 + w.rnd.IntN(8); rounds > 0 && ctx.Err() == nil && w.conn != nil; rounds-- {
			w.round()
			time.Sleep(w.millis(0, 20))
		}
		w.drop()
	}
}

// drop ends the connection, if there is one.
func (w *worker) drop() {
	if w.conn != nil {
		w.leave(w.conn)
		w.conn = nil
	}
}

// round does one thing. Usually it acquires a lock, holds it and releases it.
func (w *worker) round() {
	key := pick(w.rnd, w.bed.keys)
	kind := history.KindOf(key)
	switch {
	case kind == history.QuorumKey:
		w.quorum()
	case kind == "lock" && w.oneIn(6):
		w.several()
	case history.IsCounter(key):
		w.count(kind)
	case kind != "sem" && w.oneIn(80):
		w.breaks(key)
	case w.oneIn(12):
		w.disturbOther()
	default:
		w.single(w.request(key))
	}
}

// single acquires, holds and releases one lock, or permits of one semaphore.
func (w *worker) single(r *request) {
	reply, sent, got := w.acquire(r)
	if !strings.HasPrefix(reply, ":") && !strings.HasPrefix(reply, "$") && !strings.HasPrefix(reply, "*") {
		return
	}
	var g holdGroup
	for _, token := range tokensOf(reply) {
		number, _ := strconv.ParseInt(token, 10, 64)
		if r.mode == "permit" {
			number = 0
		} else if number <= 0 {
			w.tally.Violation(r.key, 0, "%v was answered %q", r.args, reply)
		}
		g = append(g, believe(w.history, r, r.key, token, number, sent, got))
	}
	if r.repeated {
		// Leash may receive the first copy after the second. The first copy then moves the hold to
		// a connection that has ended.
		w.tally.Add(r.kind(), "repeated, and granted")
		g.connectionEnded()
		w.drop()
		return
	}
	if !w.begin(g) {
		return
	}
	if len(g) == 1 && r.mode != "permit" {
		w.useHold(g[0])
	}
	w.release(g)
}

// begin holds what was granted for a while. It reports whether the client still believes in the
// hold.
func (w *worker) begin(g holdGroup) bool {
	// The reply to the grant may have come late.
	if now := time.Now(); (now.After(g[0].last.Add(g[0].ttl/4)) || now.After(g[0].until)) && !w.checkHeld(g) {
		return false
	}
	if g[0].mode != "permit" && g[0].mode != "quorum" && w.oneIn(8) {
		w.watch(g[0])
	}
	return w.hold(g)
}

// tokensOf returns the values in a reply: an integer, a bulk string, or an array of them. A nil is
// "".
func tokensOf(reply string) (tokens []string) {
	lines := strings.Split(reply, "\r\n")
	for i := 0; i < len(lines); i++ {
		switch line := lines[i]; {
		case line == "$-1":
			tokens = append(tokens, "")
		case strings.HasPrefix(line, "$") && i+1 < len(lines):
			i++
			tokens = append(tokens, lines[i])
		case strings.HasPrefix(line, ":"):
			tokens = append(tokens, line[1:])
		}
	}
	return tokens
}

// acquire sends r. It returns the reply if that grants something, and "" if not. A request with an
// ID may be sent again on another connection. sent is when it was sent first.
func (w *worker) acquire(r *request) (reply string, sent, got time.Time) {
	// Other requests may wait although this lock is free.
	if r.wait > 0 && r.mode != "quorum" && r.mode != "several" && r.count == 0 {
		defer w.audit.waiting(r.key)()
	}
	sent = time.Now()
	for range 3 {
		reply, at, err := w.conn.do(time.Now().Add(r.wait+replyPatience), r.args...)
		got = time.Now()
		w.checkLateness(r.key, r.args, r.tolerance(), at, got, err)
		if err == nil {
			r.by = fmt.Sprintf("worker %d, %s", w.number, w.conn)
			return w.granted(r, reply, at, got), sent, got
		}
		w.tally.Add(r.kind(), "no reply")
		w.drop()
		if r.id == "" || w.oneIn(4) {
			return "", sent, got
		}
		if w.conn = w.dial(); w.conn == nil {
			return "", sent, got
		}
		r.repeated = true
	}
	return "", sent, got
}

// checkLateness records a violation if the reply took longer than the tolerance, not counting the
// time of faults.
func (w *worker) checkLateness(key string, args []string, tolerance time.Duration, sent, got time.Time, err error) {
	if late := got.Sub(sent) - tolerance; late > 0 && late > w.history.Faults.Disturbed(sent, got) && (err == nil || isTimeout(err)) {
		w.tally.Violation(key, 0, "%v was not answered for %v", args, history.Round(got.Sub(sent)))
	}
}

// granted returns reply if it grants something, and "" if not.
func (w *worker) granted(r *request, reply string, sent, got time.Time) string {
	switch {
	case reply == "$-1", reply == "*-1":
		w.tally.Add(r.kind(), "taken")
		return ""
	case strings.HasPrefix(reply, "-"):
		w.tally.Errored(r.kind(), reply)
		return ""
	}
	w.tally.Add(r.kind(), "granted")
	if r.wait > 0 && got.Sub(sent) > 20*time.Millisecond {
		w.tally.Waited(got.Sub(sent))
	}
	return reply
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// breaks ends any hold of key with LOCK.BREAK. Leash must tell the holder before.
//
// During a fault, the holder may get this message late or never. For example, its connection is cut
// in one direction, and it still believes an earlier reply to LOCK.TTL. If Leash does not know
// whether the break was carried out, a copy of it may reach Redis after the fault.
func (w *worker) breaks(key string) {
	began, by := time.Now(), w.conn.String()
	done := w.history.Forget(key, false)
	reply, _, err := w.conn.do(began.Add(replyPatience), "LOCK.BREAK", key)
	arrived := w.history.Faults.Disturbed(began.Add(-history.ReportTolerance), time.Now()) == 0
	switch {
	case err != nil || reply[0] == '-':
		done(false, longest)
	default:
		// Otherwise it is not certain that the holder was told.
		done(reply == ":0" || reply == ":1" && arrived, 0)
	}
	w.history.NoteLock(key, began, "LOCK.BREAK by %s is sent; %v later: %q, %v", by, time.Since(began), reply, err)
	switch {
	case err != nil:
		w.tally.Add("break", "no reply")
		w.drop()
	case reply[0] == '-':
		w.tally.Errored("break", reply)
	default:
		w.tally.Add("break", reply)
	}
}
