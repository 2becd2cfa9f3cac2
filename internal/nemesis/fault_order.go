package main

import (
	"math/rand/v2"
	"slices"
)

// retriesPerRound is how often a fault that could not be caused is tried again in a round.
const retriesPerRound = 2

// faultOrder returns faults in rounds. In each round every fault comes once, in a random order. If
// each fault were chosen independently, a run of three minutes would miss some faults.
type faultOrder struct {
	rnd     *rand.Rand
	all     []fault
	left    []fault        // the faults that this round has not had yet
	retries map[string]int // the retries of this round, by fault
}

// next returns the next fault. There must be at least one fault.
func (d *faultOrder) next() fault {
	if len(d.left) == 0 {
		d.left, d.retries = slices.Clone(d.all), make(map[string]int)
		d.rnd.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	f := d.left[0]
	d.left = d.left[1:]
	return f
}

// refused notes that f, the fault that next returned last, could not be caused. It comes again at
// the end of this round.
func (d *faultOrder) refused(f fault) {
	if d.retries[f.name] < retriesPerRound {
		d.retries[f.name]++
		d.left = append(d.left, f)
	}
}
