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
)

const (
	replyPatience = 10 * time.Second // beyond the BLOCK of a request: then its client gives up
	replySlack    = 4 * time.Second  // for which a reply may be late, beside what was broken

	endlessPatience = 50 * time.Second // of one who waits without end
	// for which that may be, beside what was broken: when the others go, it must end
	endlessSlack = 20 * time.Second
)

// worker is a client that takes, holds and releases locks until it is told to stop.
type worker struct {
	number  int
	bed     *testbed
	rnd     *rand.Rand
	history *history
	tally   *tally
	audit   *audit
	owners  int
	conn    *client        // the connection that it uses; nil for none
	watches sync.WaitGroup // of those who wait for the loss of what it holds
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

// drop ends the connection.
func (w *worker) drop() {
	if w.conn != nil {
		w.leave(w.conn)
		w.conn = nil
	}
}

// round takes a lock once, holds and releases it.
func (w *worker) round() {
	key := pick(w.rnd, w.bed.keys)
	kind := kindOf(key)
	switch {
	case kind == quorumKey:
		w.quorum()
	case kind == "lock" && w.one(6):
		w.several()
	case isCounter(key):
		w.count(kind)
	case kind != "sem" && w.one(80):
		w.breaks(key)
	case w.one(12):
		w.disturbOther()
	default:
		w.single(w.request(key))
	}
}

// single takes, holds and releases one lock, or permits of one semaphore.
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
			w.tally.violation(r.key, 0, "%v was answered %q", r.args, reply)
		}
		g = append(g, w.history.believe(r, r.key, token, number, sent, got))
	}
	if r.repeated {
		// The first copy may come to Leash later than the second, and takes the hold along to a
		// connection that is gone.
		w.tally.add(r.kind(), "repeated, and granted")
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

// begin holds what was granted for a while. It reports whether it is still believed in.
func (w *worker) begin(g holdGroup) bool {
	// the grant may be old
	if now := time.Now(); (now.After(g[0].last.Add(g[0].ttl/4)) || now.After(g[0].until)) && !w.prove(g) {
		return false
	}
	if g[0].mode != "permit" && g[0].mode != "quorum" && w.one(8) {
		w.watch(g[0])
	}
	return w.hold(g)
}

// tokensOf are the words of a reply: an integer, a bulk, or an array of them. A nil is "".
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

// acquire sends r and returns a reply that grants something, or "". One with an ID it may repeat on
// another connection; sent is when it was sent first.
func (w *worker) acquire(r *request) (reply string, sent, got time.Time) {
	// else it may wait though this one is free
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
		w.tally.add(r.kind(), "no reply")
		w.drop()
		if r.id == "" || w.one(4) {
			return "", sent, got
		}
		if w.conn = w.dial(); w.conn == nil {
			return "", sent, got
		}
		r.repeated = true
	}
	return "", sent, got
}

// checkLateness blames Leash when what was sent at a time was not answered within slack, beside
// what was broken.
func (w *worker) checkLateness(key string, args []string, tolerance time.Duration, sent, got time.Time, err error) {
	if late := got.Sub(sent) - tolerance; late > 0 && late > w.history.faults.disturbed(sent, got) && (err == nil || isTimeout(err)) {
		w.tally.violation(key, 0, "%v was not answered for %v", args, round(got.Sub(sent)))
	}
}

// granted is reply if it grants something, else "".
func (w *worker) granted(r *request, reply string, sent, got time.Time) string {
	switch {
	case reply == "$-1", reply == "*-1":
		w.tally.add(r.kind(), "taken")
		return ""
	case strings.HasPrefix(reply, "-"):
		w.tally.errored(r.kind(), reply)
		return ""
	}
	w.tally.add(r.kind(), "granted")
	if r.wait > 0 && got.Sub(sent) > 20*time.Millisecond {
		w.tally.waited(got.Sub(sent))
	}
	return reply
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// breaks ends whatever hold of key there is: its holder must have been told before. What Leash has
// told a holder may not arrive, or not at once, while something is broken: its connection is cut
// one way, say, and it goes on to believe what LOCK.TTL said before. When Leash does not know
// whether the break was carried out, a copy of it may come to Redis when what holds it up is
// mended.
func (w *worker) breaks(key string) {
	began, by := time.Now(), w.conn.String()
	done := w.history.forget(key, false)
	reply, _, err := w.conn.do(began.Add(replyPatience), "LOCK.BREAK", key)
	arrived := w.history.faults.disturbed(began.Add(-reportTolerance), time.Now()) == 0
	switch {
	case err != nil || reply[0] == '-':
		done(false, longest)
	default:
		// else nobody confirmed that the holder was told
		done(reply == ":0" || reply == ":1" && arrived, 0)
	}
	w.history.noteLock(key, began, "LOCK.BREAK by %s is sent; %v later: %q, %v", by, time.Since(began), reply, err)
	switch {
	case err != nil:
		w.tally.add("break", "no reply")
		w.drop()
	case reply[0] == '-':
		w.tally.errored("break", reply)
	default:
		w.tally.add("break", reply)
	}
}
