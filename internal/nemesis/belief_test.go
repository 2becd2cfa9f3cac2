package main

import (
	"strings"
	"testing"
	"time"
)

func fresh(t *testing.T, r *request) (*history, *belief, time.Time) {
	t.Helper()
	h := newHistory(&faultTimeline{})
	sent := time.Now()
	if r.ttl == 0 {
		r.ttl = ttl
	}
	return h, h.believe(r, "lock:1", "7", 7, sent, sent.Add(10*time.Millisecond)), sent
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
		{"a grant, and no reply after it", &request{}, func(*belief, time.Time) {}, ttl},
		{"a reply", &request{}, func(b *belief, sent time.Time) { b.answered(sent.Add(2 * time.Second)) }, 2*time.Second + ttl/2},
		{"LOCK.TTL", &request{}, func(b *belief, sent time.Time) { b.confirmed(sent.Add(time.Second), 500*time.Millisecond) }, 1500 * time.Millisecond},
		{"a lease that was made shorter", &request{lease: time.Minute}, func(b *belief, sent time.Time) { b.extended(sent.Add(time.Second), time.Second) }, 2 * time.Second},
		{"a lease and a reply", &request{lease: time.Second}, func(b *belief, sent time.Time) { b.answered(sent) }, time.Second},
	} {
		h, b, sent := fresh(t, row.r)
		row.with(b, sent)
		b.ends(sent.Add(time.Hour), time.Time{})
		b.ends(sent, time.Time{})
		ops := h.byKey["lock:1"]
		if len(ops) != 2 || ops[1].Call != h.at(sent.Add(row.want)) || ops[1].Return != never {
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
		{"redis answers", false, false, 2*time.Second + ttl/2},
		{"redis may not answer", true, false, ttl},
		{"redis answers, and it is released", false, true, 2*time.Second + ttl/2},
		{"redis may not answer, and it is released", true, true, ttl},
	} {
		h, b, sent := fresh(t, &request{})
		sent = sent.Add(-time.Hour) // so that the belief is over now
		b.since, b.last, b.certain, b.until = sent, sent, sent.Add(ttl), sent.Add(ttl/2)
		if row.broken {
			h.faults.periods = []*faultPeriod{{upstream: true, from: sent.Add(time.Second), to: sent.Add(time.Second)}}
		}
		b.answered(sent.Add(2 * time.Second))
		if row.releases {
			b.ends(sent.Add(2*time.Second+ttl/2), time.Time{})
		} else {
			b.expire()
		}
		if got := h.byKey["lock:1"][1].Call; got != h.at(sent.Add(row.want)) {
			t.Errorf("%s: got %v, want %v", row.name, time.Duration(got-h.at(sent)), row.want)
		}
	}
}

// TestBeliefEndsWithItsLease: a belief ends with its lease, also when its client gets a reply later
// and Redis is broken.
func TestBeliefEndsWithItsLease(t *testing.T) {
	h, b, sent := fresh(t, &request{lease: time.Second})
	h.faults.periods = []*faultPeriod{{upstream: true, from: sent, to: sent.Add(time.Minute)}}
	b.answered(sent.Add(3 * time.Second))
	b.ends(sent.Add(4*time.Second), time.Time{})
	if got := h.byKey["lock:1"][1].Call; got != h.at(sent.Add(time.Second)) {
		t.Errorf("got %v, want 1s", time.Duration(got-h.at(sent)))
	}
}

// TestDisturbed: disturbed sums the times in which something was broken. It counts each time once.
func TestDisturbed(t *testing.T) {
	start := time.Now()
	after := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	w := &faultTimeline{periods: []*faultPeriod{{from: after(10), to: after(12)}, {from: after(11), to: after(13)}, {upstream: true, from: after(30)}}}
	for _, row := range [][3]int{{0, 5, 0}, {0, 20, 5}, {11, 12, 1}, {14, 20, 1}, {0, 40, 15}, {35, 40, 5}} {
		if got := w.disturbed(after(row[0]), after(row[1])); got != time.Duration(row[2])*time.Second {
			t.Errorf("from %d to %d: got %v, want %d s", row[0], row[1], got, row[2])
		}
	}
	if !w.answering(after(0), after(29)) || w.answering(after(0), after(31)) || w.answering(after(40), after(41)) {
		t.Error("redis does not answer from 30 s on, and only then")
	}
}

// TestDisturbedOrInGrace: disturbedOrInGrace adds the grace period of a new master. The grace
// period begins when Leash has looked at the master. Leash cannot do that while something else is
// broken.
func TestDisturbedOrInGrace(t *testing.T) {
	start := time.Now()
	after := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, row := range []struct {
		name     string
		spells   []*faultPeriod
		from, to int
		want     int
	}{
		{"no new master", []*faultPeriod{{from: after(10), to: after(12)}}, 0, 40, 4},
		{"a new master", []*faultPeriod{{newMaster: true, from: after(10), to: after(12)}}, 0, 40, 9},
		{"a new master, and its grace period is over", []*faultPeriod{{newMaster: true, from: after(10), to: after(12)}}, 19, 40, 0},
		{"a new master does not answer until 18 s", []*faultPeriod{{newMaster: true, from: after(10), to: after(12)}, {from: after(13), to: after(18)}}, 0, 40, 15},
		{"a new master does not answer until 18 s, nor from 24 s to 26 s", []*faultPeriod{{newMaster: true, from: after(10), to: after(12)}, {from: after(13), to: after(18)}, {from: after(24), to: after(26)}}, 0, 40, 19},
		{"a new master does not answer", []*faultPeriod{{newMaster: true, from: after(10), to: after(12)}, {from: after(13)}}, 0, 40, 30},
		{"the failover goes on", []*faultPeriod{{newMaster: true, from: after(10)}}, 0, 40, 30},
	} {
		w := &faultTimeline{periods: row.spells}
		if got := w.disturbedOrInGrace(after(row.from), after(row.to), 5*time.Second); got != time.Duration(row.want)*time.Second {
			t.Errorf("%s: got %v, want %d s", row.name, got, row.want)
		}
	}
}

// TestLingered: a released lock must not come back. A renewal that does not check the owner would
// bring it back. No lock may stay longer than its lease.
func TestLingered(t *testing.T) {
	start := time.Now()
	after := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, row := range []struct {
		name     string
		k        redisHold
		seen     []int
		failover bool
		want     string
	}{
		{"released, and gone", redisHold{ended: after(1), released: after(2)}, []int{0, 1}, false, ""},
		{"renewed after the release", redisHold{ended: after(1), released: after(2)}, []int{1, 3}, false, "was released before"},
		{"a failover forgot the release", redisHold{ended: after(1), released: after(2)}, []int{1, 3}, true, ""},
		{"expires", redisHold{ended: after(1)}, []int{1, 3, 4}, false, ""},
		{"does not expire", redisHold{ended: after(1)}, []int{1, 4, 8}, false, "is in Redis 7s later"},
		{"the grant came long after the belief in it had ended", redisHold{ended: after(1), got: after(4)}, []int{4, 8}, false, ""},
	} {
		h := newHistory(&faultTimeline{})
		if row.failover {
			h.forgets = []*interval{{to: never, failover: true}}
		}
		row.k.hold, row.k.base = 1, ttl
		h.redisHolds["lock:1 7"] = &row.k
		for _, s := range row.seen {
			h.noteSeen("lock:1", "7", after(s))
		}
		_, _, err := h.longestAfterEnd()
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: got %v, want %q", row.name, err, row.want)
		}
	}
}

// TestOrphanExpires: a grant that no client was told of must expire as well.
func TestOrphanExpires(t *testing.T) {
	h := newHistory(&faultTimeline{})
	start := time.Now()
	h.noteSeen("lock:1", "9", start)
	h.noteSeen("lock:1", "9", start.Add(ttl))
	if _, _, err := h.longestAfterEnd(); err != nil {
		t.Error(err)
	}
	h.noteSeen("lock:1", "9", start.Add(time.Minute))
	if _, _, err := h.longestAfterEnd(); err == nil {
		t.Error("a lock was there for a minute: got no error")
	}
}
