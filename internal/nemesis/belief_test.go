package main

import (
	"testing"
	"time"

	"leash/internal/nemesis/history"
)

func fresh(t *testing.T, r *request) (*history.History, *belief, time.Time) {
	t.Helper()
	h := history.NewHistory(&history.FaultTimeline{})
	sent := time.Now()
	if r.ttl == 0 {
		r.ttl = history.TTL
	}
	return h, believe(h, r, "lock:1", "7", 7, sent, sent.Add(10*time.Millisecond)), sent
}

// TestBeliefEnds: a belief ends by its lease, by MAXHOLD, by IDLE, by silence, or when the time
// that LOCK.TTL said is over. It ends only once.
func TestBeliefEnds(t *testing.T) {
	for _, row := range []struct {
		name string
		r    *request
		with func(b *belief, sent time.Time)
		want time.Duration // after the acquire was sent
	}{
		{"a lease", &request{lease: time.Second}, func(*belief, time.Time) {}, time.Second},
		{"MAXHOLD", &request{most: time.Second}, func(*belief, time.Time) {}, time.Second},
		{"IDLE", &request{idle: time.Second}, func(b *belief, sent time.Time) { b.answered(sent.Add(time.Second)) }, 2 * time.Second},
		{"a grant, and no reply after it", &request{}, func(*belief, time.Time) {}, history.TTL},
		{"a reply", &request{}, func(b *belief, sent time.Time) { b.answered(sent.Add(2 * time.Second)) }, 2*time.Second + history.TTL/2},
		{"LOCK.TTL", &request{}, func(b *belief, sent time.Time) { b.confirmed(sent.Add(time.Second), 500*time.Millisecond) }, 1500 * time.Millisecond},
		{"a lease that was made shorter", &request{lease: time.Minute}, func(b *belief, sent time.Time) { b.extended(sent.Add(time.Second), time.Second) }, 2 * time.Second},
		{"a lease and a reply", &request{lease: time.Second}, func(b *belief, sent time.Time) { b.answered(sent) }, time.Second},
	} {
		h, b, sent := fresh(t, row.r)
		row.with(b, sent)
		b.ends(sent.Add(time.Hour), time.Time{})
		b.ends(sent, time.Time{})
		ops := h.ByKey["lock:1"]
		if len(ops) != 2 || ops[1].Call != h.At(sent.Add(row.want)) || ops[1].Return != history.Never {
			t.Errorf("%s: got %v, want one end after %v", row.name, ops, row.want)
		}
	}
}

// TestBeliefAfterCutOff: a reply proves a hold for half a TTL, but not while Redis is broken.
// What LOCK.TTL said counts also then. Both are so for a client that gets no more replies and for a
// client that releases.
func TestBeliefAfterCutOff(t *testing.T) {
	for _, row := range []struct {
		name     string
		broken   bool
		releases bool
		want     time.Duration
	}{
		{"redis answers", false, false, 2*time.Second + history.TTL/2},
		{"redis may not answer", true, false, history.TTL},
		{"redis answers, and it is released", false, true, 2*time.Second + history.TTL/2},
		{"redis may not answer, and it is released", true, true, history.TTL},
	} {
		h, b, sent := fresh(t, &request{})
		sent = sent.Add(-time.Hour) // so that the belief is over now
		b.since, b.last, b.certain, b.until = sent, sent, sent.Add(history.TTL), sent.Add(history.TTL/2)
		if row.broken {
			h.Faults.Periods = []*history.FaultPeriod{{Upstream: true, From: sent.Add(time.Second), To: sent.Add(time.Second)}}
		}
		b.answered(sent.Add(2 * time.Second))
		if row.releases {
			b.ends(sent.Add(2*time.Second+history.TTL/2), time.Time{})
		} else {
			b.expire()
		}
		if got := h.ByKey["lock:1"][1].Call; got != h.At(sent.Add(row.want)) {
			t.Errorf("%s: got %v, want %v", row.name, time.Duration(got-h.At(sent)), row.want)
		}
	}
}

// TestBeliefEndsWithItsLease: a belief ends with its lease, also when its client gets a reply later
// and Redis is broken.
func TestBeliefEndsWithItsLease(t *testing.T) {
	h, b, sent := fresh(t, &request{lease: time.Second})
	h.Faults.Periods = []*history.FaultPeriod{{Upstream: true, From: sent, To: sent.Add(time.Minute)}}
	b.answered(sent.Add(3 * time.Second))
	b.ends(sent.Add(4*time.Second), time.Time{})
	if got := h.ByKey["lock:1"][1].Call; got != h.At(sent.Add(time.Second)) {
		t.Errorf("got %v, want 1s", time.Duration(got-h.At(sent)))
	}
}
