package main

import (
	"math/rand/v2"
	"slices"
)

// redeals is how often a fault that could not be struck is tried again before the deck is dealt
// anew.
const redeals = 2

// faultOrder deals faults in an order that is left to chance, each once before any comes again: of
// those that were drawn one by one, a run of three minutes would miss some each time.
type faultOrder struct {
	rnd   *rand.Rand
	all   []fault
	left  []fault // of this deal
	again map[string]int
}

// next is the fault to strike next. There must be some.
func (d *faultOrder) next() fault {
	if len(d.left) == 0 {
		d.left, d.again = slices.Clone(d.all), make(map[string]int)
		d.rnd.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	f := d.left[0]
	d.left = d.left[1:]
	return f
}

// refused says that f, the last one, could not be struck: it comes again at the end of this deal.
func (d *faultOrder) refused(f fault) {
	if d.again[f.name] < redeals {
		d.again[f.name]++
		d.left = append(d.left, f)
	}
}
