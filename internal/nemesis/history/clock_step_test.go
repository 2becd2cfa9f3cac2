package history

import (
	"testing"
	"time"
)

// TestClockStepsAreExcepted: a hold may end early by as much as its clock was stepped forward
// while it existed. It may not end before that step. The step counts only until the client must
// have been told. A step within the margin explains nothing for a hold that is renewed.
func TestClockStepsAreExcepted(t *testing.T) {
	ms := int64(time.Millisecond)
	forth := func(at int64, by time.Duration) *clockStep {
		return &clockStep{keys: []string{"k"}, by: by, from: at * ms, to: (at + 1) * ms}
	}
	back := func(at int64, by time.Duration) *clockStep { return forth(at, -by) }
	for _, row := range []struct {
		name  string
		lease bool
		jumps []*clockStep
		// the end, in ms, of a hold with a TTL of 1 s, granted at 0 and believed in until 1000
		want int64
	}{
		{"none", false, nil, 1000},
		{"another lock's", false, []*clockStep{{keys: []string{"other"}, by: time.Hour, from: 100 * ms, to: 200 * ms}}, 1000},
		{"by less than a TTL", false, []*clockStep{forth(100, 300*time.Millisecond)}, 700},
		{"by more", false, []*clockStep{forth(100, time.Hour)}, 100},
		{"back", false, []*clockStep{back(100, time.Hour)}, 1000},
		{"before it was granted", false, []*clockStep{forth(-100, time.Hour)}, 1000},
		{"while it was granted", false, []*clockStep{{keys: []string{"k"}, by: time.Hour, from: -10 * ms, to: 0}}, 0},
		{"after its end", false, []*clockStep{forth(1001, time.Hour)}, 1000},
		{"back and forth", false, []*clockStep{back(100, time.Hour), forth(400, time.Hour)}, 400},
		{"back and further forth", false, []*clockStep{back(100, 300*time.Millisecond), forth(400, 500*time.Millisecond)}, 500},
		{"forth, back and forth", false, []*clockStep{forth(100, 300*time.Millisecond), back(200, 300*time.Millisecond), forth(300, 300*time.Millisecond)}, 700},
		{"twice forth", false, []*clockStep{forth(100, 300*time.Millisecond), forth(300, 300*time.Millisecond)}, 400},
		{"within the margin", false, []*clockStep{forth(100, 40*time.Millisecond)}, 1000},
		{"of a lease", true, []*clockStep{forth(100, 40*time.Millisecond)}, 960},
		{"long ago", false, []*clockStep{forth(-5000, time.Hour)}, 1000},
	} {
		h := NewHistory(&FaultTimeline{})
		h.steps = row.jumps
		h.redisHolds["k 10"] = &RedisHold{Hold: 1, Key: "k", Token: "10", Base: time.Second, Lease: row.lease}
		ops, n := h.withExceptions("k", testHistory{granted("plain", 1, 10, 0, 1), ended("plain", 1, 1000, Never)})
		if got := ops[1].Call; got != row.want*ms || (n.stepped == 1) != (row.want < 1000) || n.forgotten != 0 {
			t.Errorf("%s: it ended after %v, %+v; want %d ms", row.name, time.Duration(got), n, row.want)
		}
	}
}

// TestClockStepIsExceptedForLimitedTime: a step explains nothing about a client that believes in a
// hold for longer than a TTL after the step.
func TestClockStepIsExceptedForLimitedTime(t *testing.T) {
	ms := int64(time.Millisecond)
	h := NewHistory(&FaultTimeline{})
	h.steps = []*clockStep{{keys: []string{"k"}, by: time.Hour, from: 100 * ms, to: 101 * ms}}
	h.redisHolds["k 10"] = &RedisHold{Hold: 1, Key: "k", Token: "10", Base: time.Second}
	for until, want := range map[int64]int64{2100: 100, 2200: 2200} {
		ops, _ := h.withExceptions("k", testHistory{granted("plain", 1, 10, 0, 1), ended("plain", 1, until, Never)})
		if got := ops[1].Call; got != want*ms {
			t.Errorf("believed in until %d ms: it ended after %v, want %d ms", until, time.Duration(got), want)
		}
	}
}

// TestClockStepsBackLengthenLeases: a step back lengthens what Redis had before, by as much as the
// clock is behind.
func TestClockStepsBackLengthenLeases(t *testing.T) {
	for _, row := range []struct {
		jumps []time.Duration // one a second, from 1 s on
		sent  int             // s
		want  time.Duration
	}{
		{nil, 0, 0},
		{[]time.Duration{-time.Minute}, 0, time.Minute},
		{[]time.Duration{-time.Minute}, 2, 0},
		{[]time.Duration{time.Minute}, 0, 0},
		{[]time.Duration{-time.Minute, time.Minute}, 0, 0},
		// its end may have been set when the clock was ahead
		{[]time.Duration{time.Minute, -time.Minute}, 0, time.Minute},
		{[]time.Duration{time.Minute, -time.Minute}, 2, time.Minute},
		{[]time.Duration{-time.Minute, 90 * time.Second, -30 * time.Second}, 0, 30 * time.Second},
	} {
		h := NewHistory(&FaultTimeline{})
		at := func(s int) time.Time { return h.start.Add(time.Duration(s) * time.Second) }
		for i, by := range row.jumps {
			h.steps = append(h.steps, &clockStep{keys: []string{"k"}, by: by, from: h.At(at(i + 1)), to: h.At(at(i + 1))})
		}
		if got := h.Lengthened("k", at(row.sent), at(9)); got != row.want {
			t.Errorf("%v, granted at %d s: got %v, want %v", row.jumps, row.sent, got, row.want)
		}
	}
}
