package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// belief is a hold that a client believes in.
type belief struct {
	history *history
	key     string
	mode    string // plain, fair, read, write, permit or quorum
	owner   string // "" for an owner of its own
	token   string
	hold    int
	parts   []*kept // what is in Redis of it
	since   time.Time
	ttl     time.Duration
	silent  bool          // ONLOSS ERROR: that the connection is open proves nothing
	stays   bool          // ONCLOSE EXPIRE
	vague   bool          // Leash may deny it though Redis has it
	count   int           // of its owner's acquires; 0 when nobody knows
	lease   time.Time     // when it is over by itself; zero when it is renewed
	limit   time.Time     // when MAXHOLD is over; zero without
	idle    time.Duration // 0 for none: then it is over without a word to Leash
	last    time.Time     // when the last question was sent that was answered as to a holder
	certain time.Time     // what Leash has said, or the lease, is good until then
	until   time.Time     // and what a sign of life is good for
	// when its owner took it up anew, whose connection had ended when it was not certain any more;
	// zero for never
	revived time.Time
	over    bool
	told    atomic.Pointer[endNotice] // of its end
}

// believe notes a grant that happened between sent and got, and begins the belief in it.
func (h *history) believe(r *request, key, token string, number int64, sent, got time.Time) *belief {
	b := &belief{
		history: h, key: key, mode: r.mode, owner: r.owner, token: token, ttl: r.ttl, silent: r.silent, count: 1, idle: r.idle,
		stays: slices.Contains(r.args, "ONCLOSE"),
		since: sent, last: sent, certain: sent.Add(r.ttl), until: sent.Add(r.ttl / 2),
	}
	if r.lease > 0 {
		b.lease = sent.Add(r.lease)
		b.until, b.certain = b.lease, b.lease
	}
	if r.most > 0 {
		b.limit = sent.Add(r.most)
	}
	b.hold = h.newHold()
	if number != 0 || r.mode == "permit" {
		b.keep(r, key, token, sent, got)
	}
	b.cap()
	b.note(grant, number, sent, got)
	b.tell("token %s for %q, asked %v ago by %s", token, strings.Join(r.args, " "), got.Sub(sent), r.by)
	return b
}

// keep says that the hold, or a part of it, is in Redis under a key.
func (b *belief) keep(r *request, key, token string, sent, got time.Time) {
	b.parts = append(b.parts, b.history.keep(r, key, token, b.hold, sent, got))
}

// noteHold writes down what happened to the hold, for whoever looks for the reason of a clash.
func (b *belief) tell(format string, args ...any) {
	b.history.noteHold(b.hold, fmt.Sprintf(format, args...))
}

func (b *belief) note(a action, token int64, call, ret time.Time) {
	b.history.add(b.key, op{action: a, mode: b.mode, hold: b.hold, owner: b.owner, token: token, counted: a == end && b.count == 1}, call, ret)
}

func (b *belief) cap() {
	for _, limit := range []time.Time{b.lease, b.limit} {
		if !limit.IsZero() {
			b.until, b.certain = earlier(b.until, limit), earlier(b.certain, limit)
		}
	}
	if b.idle > 0 {
		limit := b.last.Add(b.idle)
		b.until, b.certain = earlier(b.until, limit), earlier(b.certain, limit)
	}
}

// answered says that a question sent at a time was answered on the connection that carries the
// hold: it lasts for half a TTL more (R1).
func (b *belief) answered(sent time.Time) {
	b.last = sent
	if until := sent.Add(b.ttl / 2); until.After(b.until) {
		b.until = until
	}
	b.cap()
}

// confirmed says that LOCK.TTL, asked at a time, said for how long the hold is certain. A lease
// lasts from the grant on, which may have been long after the question.
func (b *belief) confirmed(sent time.Time, d time.Duration) {
	b.last, b.certain, b.until = sent, sent.Add(d), sent.Add(d)
	b.tell("asked %v ago, certain for %v", time.Since(sent), d)
	if !b.lease.IsZero() {
		b.lease = later(b.lease, b.certain)
	}
	b.cap()
}

// extended says that EXTEND set the lease at some time after sent.
func (b *belief) extended(sent time.Time, d time.Duration) {
	b.last, b.lease = sent, sent.Add(d)
	b.tell("extended %v ago, for %v", time.Since(sent), d)
	b.certain, b.until = b.lease, b.lease
	b.cap()
	for _, k := range b.parts {
		b.history.lengthen(k, d)
	}
}

// ends ends the belief at a time; a nonzero done is when the lock was certainly free of it.
func (b *belief) ends(at, done time.Time) {
	if b.over {
		return
	}
	b.over = true
	at = earlier(at, b.proved(at))
	b.tell("not believed in from %v on; last answered when asked at %v, then good until %v, certain until %v", b.history.when(at),
		b.history.when(b.last), b.history.when(b.until), b.history.when(b.certain))
	b.note(end, 0, at, done)
	for _, k := range b.parts {
		b.history.settle(k, at, done)
	}
}

// connectionEnded ends the belief of a client that finds its connection ended, or is told of the
// loss. A client that reads all the time would have seen that earlier, at some time after the last
// proof.
func (b *belief) connectionEnded() { b.ends(b.last, time.Time{}) }

// expire ends the belief of a client that has heard nothing for too long.
func (b *belief) expire() { b.ends(earlier(b.until, time.Now()), time.Time{}) }

// proved is until when a client that believes until a time could, by what it had heard. A sign of
// life is good for half a TTL only while Redis answers Leash (R1): else Leash gives the hold up
// when its lease may be over, and the end of the connection, by which it tells, may still be on its
// way while the client sends a release. What Leash has said for certain is good in any case.
func (b *belief) proved(at time.Time) time.Time {
	end := later(b.until, b.certain)
	if !b.history.faults.answering(b.last.Add(-b.ttl), earlier(at, end)) {
		// what was answered after the end of a lease is no proof
		return earlier(end, later(b.certain, b.last))
	}
	return end
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
