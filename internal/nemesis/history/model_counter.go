package history

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
func (a Action) changes() bool {
	return slices.Contains([]Action{Set, CountDown, Give, Take, GiveBack}, a)
}

// describe returns an operation on a counter or a latch as text.
func (o Op) describe() string {
	if o.Unknown {
		return fmt.Sprintf("%s %d, unknown whether it was done (%d)", o.Action, o.N, o.Hold)
	}
	return fmt.Sprintf("%s %d was answered %d (%d)", o.Action, o.N, o.Left, o.Hold)
}

// counter is the model of a counter: what is given and taken adds up. An operation with an unknown
// outcome may never be done. The model then does it at the very end.
func (s state) counter(o Op) (next state, ok bool) {
	switch o.Action {
	case Set:
		return s.set(o)
	case Give:
		s.exists = true
		s.left += o.N
	case Take:
		if s.left < o.N {
			return s, o.Unknown
		}
		s.left -= o.N
		if o.Unknown {
			s.unknownTakes += fmt.Sprintf("%d ", o.Hold)
			return s, true
		}
		return s, o.Left == 1
	case GiveBack: // what Leash had taken for a client that was gone
		var taken bool
		if s.unknownTakes, taken = without(s.unknownTakes, fmt.Sprintf("%d ", o.Hold)); taken {
			s.left += o.N
		}
		return s, true
	}
	return s, o.Unknown || o.Left == s.left
}

// latch is the model of a latch. Each count down subtracts one. The latch is gone at zero, and no
// waiter goes on before that.
func (s state) latch(o Op) (next state, ok bool) {
	switch {
	case o.Action == Set:
		return s.set(o)
	case o.Action == Await:
		return s, s.left == 0 && o.Left == 1
	case o.Action == CountDown && s.exists:
		s.left--
		s.exists = s.left > 0
	}
	return s, o.Unknown || o.Left == s.left
}

// set sets the count of a counter or a latch that does not exist yet.
func (s state) set(o Op) (next state, ok bool) {
	fresh := !s.exists
	if fresh {
		s.exists, s.left = true, o.N
	}
	return s, o.Unknown || (o.Left == 1) == fresh
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
func (h *History) lostCount(ops []porcupine.Operation) bool {
	first, last := int64(Never), int64(0)
	for _, o := range ops {
		first, last = min(first, o.Call), max(last, o.Call)
		if o.Return != Never {
			last = max(last, o.Return)
		}
	}
	return slices.ContainsFunc(h.forgets, func(f *interval) bool { return f.key == "" && first <= f.to && last >= f.from })
}

// CounterKinds are the kinds that have no owners: the counters of SEM.TAKE, and latches.
var CounterKinds = []string{"count", "latch"}

// IsCounter reports whether a name is that of a counter or a latch, or of one of these kinds.
func IsCounter(key string) bool { return slices.Contains(CounterKinds, KindOf(key)) }
