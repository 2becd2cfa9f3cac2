package main

import (
	"time"
)

// belief is a hold that a client believes in.
type belief struct {
	history *history
	key     string
	mode    string
	owner   string
	hold    int
	token   string
	lease   time.Time // when it is over by itself; zero when it is renewed
	last    time.Time // when the last proof was asked for
	until   time.Time // it is proved until then
	over    bool
}

// believe notes a grant that happened between sent and got, and begins the belief in it.
func (h *history) believe(key, mode, owner, token string, number int64, lease time.Duration, sent, got time.Time) *belief {
	b := &belief{history: h, key: key, mode: mode, owner: owner, hold: h.newHold(), token: token}
	if lease > 0 {
		b.lease = sent.Add(lease)
	}
	b.note(grant, number, sent, got)
	b.proved(got, ttl/2)
	return b
}

func (b *belief) note(a action, token int64, call, ret time.Time) {
	b.history.add(b.key, op{action: a, mode: b.mode, hold: b.hold, owner: b.owner, token: token}, call, ret)
}

// proved says that something asked at sent has proved the hold for d from then on.
func (b *belief) proved(sent time.Time, d time.Duration) {
	b.last, b.until = sent, sent.Add(d)
	if !b.lease.IsZero() && b.lease.Before(b.until) {
		b.until = b.lease
	}
}

// ends ends the belief at a time; a nonzero done is when the lock was certainly free of it.
func (b *belief) ends(at, done time.Time) {
	if b.over {
		return
	}
	b.over = true
	if b.until.Before(at) {
		at = b.until
	}
	b.note(end, 0, at, done)
}

// noticed ends the belief of a client that finds its connection ended, or is told of the loss. A client that reads all the time would have
// seen that earlier, at some time after the last proof.
func (b *belief) noticed() { b.ends(b.last, time.Time{}) }
