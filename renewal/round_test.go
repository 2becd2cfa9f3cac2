package renewal

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"leash/internal/idtable"
)

// TestRoundIsReused: A round is reused with its memory, unless that is large. Nothing is left in it
// from before.
func TestRoundIsReused(t *testing.T) {
	groups := make([]*group, 3)
	for i := range groups {
		groups[i] = newTestGroup()
		for range 40 {
			groups[i].add(&Hold{}, 0)
		}
	}
	r := &round{}
	fill := func() {
		r.batchSize = maxBatch
		for _, g := range groups {
			r.add(g)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		r.reset(0)
		fill()
	}); n > 0 {
		t.Errorf("got %v allocations a round, want none", n)
	}
	if len(r.batches) != 3 || len(r.batches[2].Holds) != 40 ||
		r.batches[2].Holds[39] != groups[2].holdTable.At(groups[2].holds[39]) {
		t.Errorf("got %d batches %v", len(r.batches), r.batches)
	}
	r.results[0][3], r.results[1], r.results[2][39] = Gone, nil, Renewed
	r.reset(0)
	fill()
	for i, b := range r.batches {
		if !slices.Equal(r.results[i], make([]Outcome, len(b.Holds))) {
			t.Errorf("batch %d: got %v, want nothing known of %d holds", i, r.results[i], len(b.Holds))
		}
	}
	r.reset(0)
	for _, h := range r.holds[:cap(r.holds)] {
		if h != nil {
			t.Fatal("a hold is kept from the garbage collector")
		}
	}
	for range maxPooledHolds {
		groups[0].add(&Hold{}, 0)
	}
	fill()
	if r.reset(0); r.holds != nil {
		t.Errorf("room for %d holds is kept", cap(r.holds))
	}
}

// TestR24RoundTimeoutFitsItsShortestTTL: Holds with similar TTLs share a round. Their TTLs differ
// by a factor of up to two.
func TestR24RoundTimeoutFitsItsShortestTTL(t *testing.T) {
	for _, row := range []struct {
		ttls []time.Duration
		want time.Duration
	}{
		{[]time.Duration{9 * time.Second}, 1500 * time.Millisecond},
		{[]time.Duration{9 * time.Second, 16 * time.Second}, 1500 * time.Millisecond},
		{[]time.Duration{16 * time.Second, 9 * time.Second, 12 * time.Second}, 1500 * time.Millisecond},
		{[]time.Duration{time.Hour, 2 * time.Hour}, maxWait},
		{[]time.Duration{minTTL}, 10 * time.Millisecond},
	} {
		r := &round{batchSize: maxBatch}
		for _, ttl := range row.ttls {
			g := newTestGroup()
			g.ttl = ttl
			r.add(g)
		}
		if r.timeout != row.want {
			t.Errorf("%v: got %v, want %v", row.ttls, r.timeout, row.want)
		}
	}
}

// newTestGroup returns an empty group without a Watchdog.
func newTestGroup() *group { return &group{holdTable: &idtable.Table[Hold]{}} }

// TestCalmRoundIsSentInSmallCalls: Other requests wait for one of its calls, so they must be small.
func TestCalmRoundIsSentInSmallCalls(t *testing.T) {
	for _, c := range []struct {
		calm  bool
		most  int
		holds []int // holds of each group
		want  string
	}{
		{true, promptBatch, []int{1, 1, 1}, "[1 1 1]"},
		{true, promptBatch, []int{16, 15}, "[16 15]"},
		{true, promptBatch, []int{32}, "[32]"},
		{true, promptBatch, []int{61}, "[30][31]"},
		{true, calmBatch, []int{1, 1, 1}, "[1 1 1]"},
		{true, calmBatch, []int{16, 15}, "[16 15]"},
		{true, calmBatch, []int{80}, "[80]"},
		{true, calmBatch, []int{81}, "[40][41]"},
		{true, calmBatch, []int{300}, "[75][75][75][75]"},
		{true, calmBatch, []int{0, 300}, "[75][75][75][75]"},
		{true, calmBatch, nil, ""},
		{false, maxBatch, []int{300, 1, 1}, "[150 150 1 1]"},
	} {
		r := &round{calm: c.calm, batchSize: c.most}
		for _, n := range c.holds {
			g := newTestGroup()
			for range n {
				g.add(&Hold{}, 0)
			}
			r.add(g)
		}
		got := ""
		for some, results := range r.calls(func() bool { return false }) {
			var sizes []int
			for i, b := range some {
				sizes = append(sizes, len(b.Holds))
				if len(results[i]) != len(b.Holds) {
					t.Errorf("room for the outcomes of %d holds, want of %d", len(results[i]), len(b.Holds))
				}
			}
			got += fmt.Sprint(sizes)
		}
		if got != c.want {
			t.Errorf("calm %v, groups of %v: got calls of %s, want %s", c.calm, c.holds, got, c.want)
		}
	}
}

// TestCalmRoundEndsWithOneCall: When half of the time of a round has passed, the rest goes in one
// call.
func TestCalmRoundEndsWithOneCall(t *testing.T) {
	r, g := &round{calm: true, batchSize: calmBatch}, newTestGroup()
	for range 300 {
		g.add(&Hold{}, 0)
	}
	r.add(g)
	var got []int
	for some := range r.calls(func() bool { return len(got) == 2 }) {
		got = append(got, len(some))
	}
	if want := []int{1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got calls of %v batches, want %v", got, want)
	}
}
