package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// belief is a hold that a client believes that it has.
type belief struct {
	history            *history
	key                string
	mode               string // plain, fair, read, write, permit or quorum
	owner              string // "" for an owner of its own
	token              string
	hold               int
	parts              []*redisHold // what Redis has of it
	since              time.Time
	ttl                time.Duration
	errorOnLoss        bool          // ONLOSS ERROR: an open connection proves nothing
	outlivesConnection bool          // ONCLOSE EXPIRE
	maybeLost          bool          // Leash may call it lost while Redis has it
	count              int           // how many acquires its owner has; 0 if unknown
	lease              time.Time     // when its lease expires; zero if it is renewed
	limit              time.Time     // when MAXHOLD is over; zero if there is none
	idle               time.Duration // it ends if its client sends nothing for so long; 0 if there is none
	last               time.Time     // when the last request was sent whose reply proved the hold
	certain            time.Time     // until then it is certain, by what Leash said or by the lease
	until              time.Time     // until then the replies to any requests prove it
	// when its owner attached it again after its connection ended, if it was not certain any more
	// at that time; zero for never
	reattached time.Time
	over       bool
	endNotice  atomic.Pointer[endNotice] // what LOCK.AWAITLOSS said of its end; nil for nothing
}

// believe notes a grant that happened between sent and got. The belief in it begins.
func (h *history) believe(r *request, key, token string, number int64, sent, got time.Time) *belief {
	b := &belief{
		history: h, key: key, mode: r.mode, owner: r.owner, token: token, ttl: r.ttl, errorOnLoss: r.errorOnLoss, count: 1, idle: r.idle,
		outlivesConnection: slices.Contains(r.args, "ONCLOSE"),
		since:              sent, last: sent, certain: sent.Add(r.ttl), until: sent.Add(r.ttl / 2),
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
	b.logEvent("token %s for %q, asked %v ago by %s", token, strings.Join(r.args, " "), got.Sub(sent), r.by)
	return b
}

// keep notes that the hold, or a part of it, is in Redis under a key.
func (b *belief) keep(r *request, key, token string, sent, got time.Time) {
	b.parts = append(b.parts, b.history.addRedisHold(r, key, token, b.hold, sent, got))
}

// logEvent notes what happened to the hold, for reports.
func (b *belief) logEvent(format string, args ...any) {
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

// answered notes that a request was answered on the connection that carries the hold. The reply
// proves the hold until half a TTL after the request was sent (R1).
func (b *belief) answered(sent time.Time) {
	b.last = sent
	if until := sent.Add(b.ttl / 2); until.After(b.until) {
		b.until = until
	}
	b.cap()
}

// confirmed notes a reply to LOCK.TTL: from sent on, the hold is certain for d. A lease lasts from
// the grant on. The grant may have been long after the client sent the acquire.
func (b *belief) confirmed(sent time.Time, d time.Duration) {
	b.last, b.certain, b.until = sent, sent.Add(d), sent.Add(d)
	b.logEvent("asked %v ago, certain for %v", time.Since(sent), d)
	if !b.lease.IsZero() {
		b.lease = later(b.lease, b.certain)
	}
	b.cap()
}

// extended notes that LOCK.EXTEND set the lease to d, at some time after sent.
func (b *belief) extended(sent time.Time, d time.Duration) {
	b.last, b.lease = sent, sent.Add(d)
	b.logEvent("extended %v ago, for %v", time.Since(sent), d)
	b.certain, b.until = b.lease, b.lease
	b.cap()
	for _, k := range b.parts {
		b.history.lengthen(k, d)
	}
}

// ends ends the belief at a time. If done is not zero, the hold was certainly released by done.
func (b *belief) ends(at, done time.Time) {
	if b.over {
		return
	}
	b.over = true
	at = earlier(at, b.proved(at))
	b.logEvent("not believed in from %v on; last answered when asked at %v, then good until %v, certain until %v", b.history.when(at),
		b.history.when(b.last), b.history.when(b.until), b.history.when(b.certain))
	b.note(end, 0, at, done)
	for _, k := range b.parts {
		b.history.setEnd(k, at, done)
	}
}

// connectionEnded ends the belief of a client whose connection has ended, or that was told of the
// loss. A client that reads all the time would have seen that earlier, at some time after the last
// proof. So the belief ends at the last proof.
func (b *belief) connectionEnded() { b.ends(b.last, time.Time{}) }

// expire ends the belief of a client that got no reply for too long.
func (b *belief) expire() { b.ends(earlier(b.until, time.Now()), time.Time{}) }

// proved returns the time until which the replies to a client proved its hold. The client ends its
// belief at the given time. A reply proves the hold for half a TTL only while Redis answers Leash
// (R1). If Redis does not answer, Leash gives the hold up when its lease may have expired. Leash
// then closes the connection, but the client may send a release before it sees that. What Leash
// called certain counts in any case.
func (b *belief) proved(at time.Time) time.Time {
	end := later(b.until, b.certain)
	if !b.history.faults.answering(b.last.Add(-b.ttl), earlier(at, end)) {
		// A reply after the end of a lease proves nothing.
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
