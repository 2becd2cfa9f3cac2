package main

import (
	"testing"
	"time"
)

// TestStepsOfTheClockAreExcepted: a hold ends early by as much as its lock's clock was stepped
// forward while it was there, not by more, not before that, and only until it must have been found
// out. A step within the margin excuses no hold that is renewed.
func TestStepsOfTheClockAreExcepted(t *testing.T) {
	ms := int64(time.Millisecond)
	forth := func(at int64, by time.Duration) *jump {
		return &jump{keys: []string{"k"}, by: by, from: at * ms, to: (at + 1) * ms}
	}
	back := func(at int64, by time.Duration) *jump { return forth(at, -by) }
	for _, row := range []struct {
		name  string
		lease bool
		jumps []*jump
		// when a hold ended, ms, that was granted at 0 and believed in until 1000; its TTL is 1 s
		want int64
	}{
		{"none", false, nil, 1000},
		{"another lock's", false, []*jump{{keys: []string{"other"}, by: time.Hour, from: 100 * ms, to: 200 * ms}}, 1000},
		{"by less than a TTL", false, []*jump{forth(100, 300*time.Millisecond)}, 700},
		{"by more", false, []*jump{forth(100, time.Hour)}, 100},
		{"back", false, []*jump{back(100, time.Hour)}, 1000},
		{"before it was granted", false, []*jump{forth(-100, time.Hour)}, 1000},
		{"while it was granted", false, []*jump{{keys: []string{"k"}, by: time.Hour, from: -10 * ms, to: 0}}, 0},
		{"after its end", false, []*jump{forth(1001, time.Hour)}, 1000},
		{"back and forth", false, []*jump{back(100, time.Hour), forth(400, time.Hour)}, 400},
		{"back and further forth", false, []*jump{back(100, 300*time.Millisecond), forth(400, 500*time.Millisecond)}, 500},
		{"forth, back and forth", false, []*jump{forth(100, 300*time.Millisecond), back(200, 300*time.Millisecond), forth(300, 300*time.Millisecond)}, 700},
		{"twice forth", false, []*jump{forth(100, 300*time.Millisecond), forth(300, 300*time.Millisecond)}, 400},
		{"within the margin", false, []*jump{forth(100, 40*time.Millisecond)}, 1000},
		{"of a lease", true, []*jump{forth(100, 40*time.Millisecond)}, 960},
		{"long ago", false, []*jump{forth(-5000, time.Hour)}, 1000},
	} {
		h := newHistory(&faultTimeline{})
		h.jumps = row.jumps
		h.kept["k 10"] = &kept{hold: 1, key: "k", token: "10", base: time.Second, lease: row.lease}
		ops, n := h.withExceptions("k", scene{granted("plain", 1, 10, 0, 1), ended("plain", 1, 1000, never)})
		if got := ops[1].Call; got != row.want*ms || (n.stepped == 1) != (row.want < 1000) || n.forgotten != 0 {
			t.Errorf("%s: it ended after %v, %+v; want %d ms", row.name, time.Duration(got), n, row.want)
		}
	}
}

// TestStepsOfTheClockAreFoundOut: who believes in a hold for longer than a TTL after the step has
// no excuse.
func TestStepsOfTheClockAreFoundOut(t *testing.T) {
	ms := int64(time.Millisecond)
	h := newHistory(&faultTimeline{})
	h.jumps = []*jump{{keys: []string{"k"}, by: time.Hour, from: 100 * ms, to: 101 * ms}}
	h.kept["k 10"] = &kept{hold: 1, key: "k", token: "10", base: time.Second}
	for until, want := range map[int64]int64{2100: 100, 2200: 2200} {
		ops, _ := h.withExceptions("k", scene{granted("plain", 1, 10, 0, 1), ended("plain", 1, until, never)})
		if got := ops[1].Call; got != want*ms {
			t.Errorf("believed in until %d ms: it ended after %v, want %d ms", until, time.Duration(got), want)
		}
	}
}

// TestStepsBackLengthen what was there before, by as much as the clock is behind what it was.
func TestStepsBackLengthen(t *testing.T) {
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
		// it may have been told its time when the clock was ahead
		{[]time.Duration{time.Minute, -time.Minute}, 0, time.Minute},
		{[]time.Duration{time.Minute, -time.Minute}, 2, time.Minute},
		{[]time.Duration{-time.Minute, 90 * time.Second, -30 * time.Second}, 0, 30 * time.Second},
	} {
		h := newHistory(&faultTimeline{})
		at := func(s int) time.Time { return h.start.Add(time.Duration(s) * time.Second) }
		for i, by := range row.jumps {
			h.jumps = append(h.jumps, &jump{keys: []string{"k"}, by: by, from: h.at(at(i + 1)), to: h.at(at(i + 1))})
		}
		if got := h.lengthened("k", at(row.sent), at(9)); got != row.want {
			t.Errorf("%v, granted at %d s: got %v, want %v", row.jumps, row.sent, got, row.want)
		}
	}
}
