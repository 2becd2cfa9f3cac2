package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

var (
	counting = newProperty("counter", anyOp, state.counter)
	latching = newProperty("latch", anyOp, state.latch)
)

// changes reports whether an operation is about a counter or a latch and changes it.
func (a action) changes() bool {
	return slices.Contains([]action{set, countDown, give, take, giveBack}, a)
}

// describe returns an operation on a counter or a latch as text.
func (o op) describe() string {
	if o.unknown {
		return fmt.Sprintf("%s %d, unknown whether it was done (%d)", o.action, o.n, o.hold)
	}
	return fmt.Sprintf("%s %d was answered %d (%d)", o.action, o.n, o.left, o.hold)
}

// counter is the model of a counter: what is given and taken adds up. An operation with an unknown
// outcome may never be done. The model then does it at the very end.
func (s state) counter(o op) (next state, ok bool) {
	switch o.action {
	case set:
		return s.set(o)
	case give:
		s.exists = true
		s.left += o.n
	case take:
		if s.left < o.n {
			return s, o.unknown
		}
		s.left -= o.n
		if o.unknown {
			s.unknownTakes += fmt.Sprintf("%d ", o.hold)
			return s, true
		}
		return s, o.left == 1
	case giveBack: // what Leash had taken for a client that was gone
		var taken bool
		if s.unknownTakes, taken = without(s.unknownTakes, fmt.Sprintf("%d ", o.hold)); taken {
			s.left += o.n
		}
		return s, true
	}
	return s, o.unknown || o.left == s.left
}

// latch is the model of a latch. Each count down subtracts one. The latch is gone at zero, and no
// waiter goes on before that.
func (s state) latch(o op) (next state, ok bool) {
	switch {
	case o.action == set:
		return s.set(o)
	case o.action == await:
		return s, s.left == 0 && o.left == 1
	case o.action == countDown && s.exists:
		s.left--
		s.exists = s.left > 0
	}
	return s, o.unknown || o.left == s.left
}

// set sets the count of a counter or a latch that does not exist yet.
func (s state) set(o op) (next state, ok bool) {
	fresh := !s.exists
	if fresh {
		s.exists, s.left = true, o.n
	}
	return s, o.unknown || (o.left == 1) == fresh
}

// without removes a word from a list of words. Each word has a space after it. was is false if the
// word is not in the list.
func without(list, word string) (rest string, was bool) {
	before, after, was := strings.Cut(" "+list, " "+word)
	if !was {
		return list, false
	}
	return strings.TrimPrefix(before+" "+after, " "), true
}

// lostCount reports whether Redis may have forgotten an operation on a counter or a latch while it
// was in use. A counter has no lease. After a failover it goes on with the count of the new master.
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
