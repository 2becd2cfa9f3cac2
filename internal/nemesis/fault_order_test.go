package main

import (
	"slices"
	"testing"
)

// TestDeck: each fault comes once before any comes again, but one that could not be struck, and the
// order is not always the same.
func TestDeck(t *testing.T) {
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
		t.Errorf("20 deals had %d orders", len(orders))
	}
	dealt := make(map[string]int)
	for len(dealt) < len(d.all) || len(d.left) > 0 {
		f := d.next()
		if dealt[f.name]++; f.name == "b" {
			d.refused(f)
		}
	}
	if want := 1 + redeals; dealt["b"] != want || dealt["a"] != 1 {
		t.Errorf("got %v, want b %d times and the others once", dealt, want)
	}
}

// TestMissed: a fault that was tried and never struck is told; one that struck at last, or hardly
// had a chance, is not.
func TestMissed(t *testing.T) {
	n := &nemesis{
		struck:  map[string]int{"struck": 2, "at last": 1},
		refused: map[string]int{"at last": 5, "never": missedTries, "once": 1},
	}
	if got, want := n.missed(), []string{"never"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestNoClocks: what cannot be done on this machine is not tried.
func TestNoClocks(t *testing.T) {
	h := newHistory(&faultTimeline{})
	all, some := newNemesis(&testbed{clocks: true}, h, options{}, nil).faults, newNemesis(&testbed{}, h, options{}, nil).faults
	if got := len(all) - len(some); got != len(clockFaults) {
		t.Errorf("%d faults are left out, want %d", got, len(clockFaults))
	}
}
