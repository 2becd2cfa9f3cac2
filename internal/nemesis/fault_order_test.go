package main

import (
	"slices"
	"testing"

	"leash/internal/nemesis/history"
)

// TestFaultOrder: each fault comes once in a round. A fault that could not be caused comes again.
// The order is not always the same.
func TestFaultOrder(t *testing.T) {
	d := &faultOrder{rnd: random(1, 1), all: []fault{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}}
	orders := make(map[string]bool)
	for range 20 {
		var names []string
		order := ""
		for range d.all {
			f := d.next()
			names, order = append(names, f.name), order+f.name
		}
		slices.Sort(names)
		if want := []string{"a", "b", "c", "d"}; !slices.Equal(names, want) {
			t.Fatalf("got %v, want each of %v once", names, want)
		}
		orders[order] = true
	}
	if len(orders) < 5 {
		t.Errorf("20 rounds had only %d orders", len(orders))
	}
	drawn := make(map[string]int)
	for len(drawn) < len(d.all) || len(d.left) > 0 {
		f := d.next()
		if drawn[f.name]++; f.name == "b" {
			d.refused(f)
		}
	}
	if want := 1 + retriesPerRound; drawn["b"] != want || drawn["a"] != 1 {
		t.Errorf("got %v, want b %d times and the others once", drawn, want)
	}
}

// TestMissedFaults: a fault that was tried and never happened is reported. A fault that happened in
// the end is not reported, nor is one that was tried only once.
func TestMissedFaults(t *testing.T) {
	n := &nemesis{
		happened: map[string]int{"happened": 2, "at last": 1},
		refused:  map[string]int{"at last": 5, "never": missedTries, "once": 1},
	}
	if got, want := n.missed(), []string{"never"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestNoClockFaultsWithoutClocks: without clocks that can be stepped, a run has no clock faults.
func TestNoClockFaultsWithoutClocks(t *testing.T) {
	h := history.NewHistory(&history.FaultTimeline{})
	all, some := newNemesis(&testbed{clocks: true}, h, options{}, nil).faults, newNemesis(&testbed{}, h, options{}, nil).faults
	if got := len(all) - len(some); got != len(clockFaults) {
		t.Errorf("left out %d faults, want %d", got, len(clockFaults))
	}
}
