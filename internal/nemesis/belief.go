package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"leash/internal/nemesis/history"
)

// belief is a hold that a client believes that it has.
type belief struct {
	history            *history.History
	key                string
	mode               string // plain, fair, read, write, permit or quorum
	owner              string // "" for an owner of its own
	token              string
	hold               int
	parts              []*history.RedisHold // what Redis has of it
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
func believe(h *history.History, r *request, key, token string, number int64, sent, got time.Time) *belief {
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
	b.hold = h.NewHold()
	if number != 0 || r.mode == "permit" {
		b.keep(r, key, token, sent, got)
	}
	b.cap()
	b.note(history.Grant, number, sent, got)
	b.logEvent("token %s for %q, asked %v ago by %s", token, strings.Join(r.args, " "), got.Sub(sent), r.by)
	return b
}

// keep notes that the hold, or a part of it, is in Redis under a key.
func (b *belief) keep(r *request, key, token string, sent, got time.Time) {
	b.parts = append(b.parts, b.history.AddRedisHold(&history.RedisHold{
		Hold: b.hold, Key: key, Token: token, Base: max(r.ttl, r.lease), Replicas: r.replicas, Lease: r.lease > 0,
		ErrorOnLoss: r.errorOnLoss, Sent: sent, Got: got,
	}))
}

// logEvent notes what happened to the hold, for reports.
func (b *belief) logEvent(format string, args ...any) {
	b.history.NoteHold(b.hold, fmt.Sprintf(format, args...))
}

func (b *belief) note(a history.Action, token int64, call, ret time.Time) {
	b.history.Add(b.key, history.Op{Action: a, Mode: b.mode, Hold: b.hold, Owner: b.owner, Token: token, Counted: a == history.End && b.count == 1}, call, ret)
}

func (b *belief) cap() {
	for _, limit := range []time.Time{b.lease, b.limit} {
		if !limit.IsZero() {
			b.until, b.certain = history.Earlier(b.until, limit), history.Earlier(b.certain, limit)
		}
	}
	if b.idle > 0 {
		limit := b.last.Add(b.idle)
		b.until, b.certain = history.Earlier(b.until, limit), history.Earlier(b.certain, limit)
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
		b.lease = history.Later(b.lease, b.certain)
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
		b.history.Lengthen(k, d)
	}
}

// ends ends the belief at a time. If done is not zero, the hold was certainly released by done.
func (b *belief) ends(at, done time.Time) {
	if b.over {
		return
	}
	b.over = true
	at = history.Earlier(at, b.proved(at))
	b.logEvent("not believed in from %v on; last answered when asked at %v, then good until %v, certain until %v", b.history.When(at),
		b.history.When(b.last), b.history.When(b.until), b.history.When(b.certain))
	b.note(history.End, 0, at, done)
	for _, k := range b.parts {
		b.history.SetEnd(k, at, done)
	}
}

// connectionEnded ends the belief of a client whose connection has ended, or that was told of the
// loss. A client that reads all the time would have seen that earlier, at some time after the last
// proof. So the belief ends at the last proof.
func (b *belief) connectionEnded() { b.ends(b.last, time.Time{}) }

// expire ends the belief of a client that got no reply for too long.
func (b *belief) expire() { b.ends(history.Earlier(b.until, time.Now()), time.Time{}) }

// proved returns the time until which the replies to a client proved its hold. The client ends its
// belief at the given time. A reply proves the hold for half a TTL only while Redis answers Leash
// (R1). If Redis does not answer, Leash gives the hold up when its lease may have expired. Leash
// then closes the connection, but the client may send a release before it sees that. What Leash
// called certain counts in any case.
func (b *belief) proved(at time.Time) time.Time {
	end := history.Later(b.until, b.certain)
	if !b.history.Faults.Answering(b.last.Add(-b.ttl), history.Earlier(at, end)) {
		// A reply after the end of a lease proves nothing.
		return history.Earlier(end, history.Later(b.certain, b.last))
	}
	return end
}
