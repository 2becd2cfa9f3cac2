package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

var (
	counting = newAspect("counter", anything, state.counter)
	latching = newAspect("latch", anything, state.latch)
)

// changes reports whether an operation is about a counter or a latch and changes it.
func (a action) changes() bool { return slices.Contains([]action{set, down, give, take, back}, a) }

// describe is an operation on a counter or a latch as it is printed.
func (o op) describe() string {
	if o.unknown {
		return fmt.Sprintf("%s %d, and nobody knows whether it was done (%d)", o.action, o.n, o.hold)
	}
	return fmt.Sprintf("%s %d was answered %d (%d)", o.action, o.n, o.left, o.hold)
}

// counter: what is given and taken adds up. An operation of which nobody knows the outcome is done,
// or not: that is to say, at the very end.
func (s state) counter(o op) (next state, ok bool) {
	switch o.action {
	case set:
		return s.set(o)
	case give:
		s.there = true
		s.left += o.n
	case take:
		if s.left < o.n {
			return s, o.unknown
		}
		s.left -= o.n
		if o.unknown {
			s.lent += fmt.Sprintf("%d ", o.hold)
			return s, true
		}
		return s, o.left == 1
	case back: // what was taken for a client that had gone
		var taken bool
		if s.lent, taken = without(s.lent, fmt.Sprintf("%d ", o.hold)); taken {
			s.left += o.n
		}
		return s, true
	}
	return s, o.unknown || o.left == s.left
}

// latch: each count down is one, at zero the latch is gone, and nobody goes on before.
func (s state) latch(o op) (next state, ok bool) {
	switch {
	case o.action == set:
		return s.set(o)
	case o.action == await:
		return s, s.left == 0 && o.left == 1
	case o.action == down && s.there:
		s.left--
		s.there = s.left > 0
	}
	return s, o.unknown || o.left == s.left
}

// set: only what is not there gets a count.
func (s state) set(o op) (next state, ok bool) {
	fresh := !s.there
	if fresh {
		s.there, s.left = true, o.n
	}
	return s, o.unknown || (o.left == 1) == fresh
}

// without is a list of words, each with a space behind it, without one of them, and whether it was
// there.
func without(list, word string) (rest string, was bool) {
	before, after, was := strings.Cut(" "+list, " "+word)
	if !was {
		return list, false
	}
	return strings.TrimPrefix(before+" "+after, " "), true
}

// lostCount reports whether Redis may have forgotten what was done to a counter or a latch while it
// was in use: those are no leases, and go on as a new master has them.
func (h *history) lostCount(ops []porcupine.Operation) bool {
	first, last := int64(never), int64(0)
	for _, o := range ops {
		first, last = min(first, o.Call), max(last, o.Call)
		if o.Return != never {
			last = max(last, o.Return)
		}
	}
	return slices.ContainsFunc(h.forgets, func(f *interval) bool { return f.key == "" && first <= f.to && last >= f.from })
}
