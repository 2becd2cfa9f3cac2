package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	checkTimeout = time.Minute     // of one aspect of one lock's history
	partTimeout  = 2 * time.Second // of a part of a history that is wrong; a dozen parts are checked
)

// check is an error for each aspect of a lock whose history fits no order. What a forgotten lock
// explains is excepted and counted. Whoever wrote the history must have ended. What is excepted is
// logged with its story, for whoever wants to know all.
func (h *history) check(out io.Writer, log *slog.Logger) error {
	var errs []error
	excepted, moved := 0, shortened{}
	for _, key := range slices.Sorted(maps.Keys(h.byKey)) {
		all := h.byKey[key]
		for _, a := range aspectsOf(key) {
			ops := a.of(all)
			result := a.check(ops, checkTimeout)
			// a search that does not end may be one of what does not fit
			if result != porcupine.Ok {
				var n shortened
				clash := ops
				if isCounter(key) && h.lostCount(ops) {
					excepted++
					result = porcupine.Ok
				} else if risen, changed := h.recounted(key, ops); a.name == fence.name && changed {
					excepted++
					result = a.check(risen, checkTimeout)
				} else if ops, n = h.withExceptions(key, ops); n != (shortened{}) {
					excepted++
					moved.forgotten += n.forgotten
					moved.stepped += n.stepped
					result = a.check(ops, checkTimeout)
				}
				if result == porcupine.Ok && log.Enabled(context.Background(), slog.LevelDebug) {
					log.Debug("excepted", "lock", key, "is no", a.name, "story", h.clash(key, a, clash))
				}
			}
			switch result {
			case porcupine.Illegal:
				errs = append(errs, fmt.Errorf("%s is no %s:\n%s", key, a.name, h.clash(key, a, ops)))
			case porcupine.Unknown:
				errs = append(errs, fmt.Errorf("%s: %d operations could not be checked in %v", key, len(ops), checkTimeout))
			}
		}
	}
	fmt.Fprintf(out, "%d locks, counters and latches checked, %d beliefs and %d requests; %d histories are excepted, with %d beliefs that ended early as they were forgotten, and %d as a clock was stepped forward\n",
		len(h.byKey), h.holds, h.requests, excepted, moved.forgotten, moved.stepped)
	return errors.Join(errs...)
}

// of is the operations that the aspect is about.
func (a aspect) of(ops []porcupine.Operation) (out []porcupine.Operation) {
	for _, o := range ops {
		if a.about(o.Input.(op)) {
			out = append(out, o)
		}
	}
	return out
}

func (a aspect) check(ops []porcupine.Operation, timeout time.Duration) porcupine.CheckResult {
	if a.keepsOut {
		ops = shortest(ops)
	}
	return porcupine.CheckOperationsTimeout(a.model, ops, timeout)
}

// besides is for how long before a clash a hold is of interest that was over by then.
const besides = 3 * time.Second

// clash names the operation with which a history cannot be explained any more, the holds beside it,
// and what happened then. A part that takes too long to check counts as explained, so it may name a
// later operation than the first.
func (h *history) clash(key string, a aspect, ops []porcupine.Operation) string {
	byReturn := slices.SortedFunc(slices.Values(ops), func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	first := sort.Search(len(byReturn), func(i int) bool { return a.check(until(ops, byReturn[i].Return), partTimeout) == porcupine.Illegal })
	if first == len(byReturn) {
		return "  no part of it is wrong by itself"
	}
	culprit := byReturn[first]
	var b strings.Builder
	fmt.Fprintf(&b, "  until %v, with\n    %s\n  beside\n", time.Duration(culprit.Return), line(culprit))
	holds := beside(culprit, ops)
	for _, o := range byReturn {
		if slices.Contains(holds, o.Input.(op).hold) {
			fmt.Fprintf(&b, "    %s\n", line(o))
		}
	}
	fmt.Fprintf(&b, "  in the order of time\n%s", h.eventsOf(key, holds, culprit.Call-int64(storyBefore), culprit.Return+int64(storyAfter)))
	return b.String()
}

// beside are the holds that had not been over for long when o began, and had begun when it was
// over.
func beside(o porcupine.Operation, ops []porcupine.Operation) (holds []int) {
	long := make(map[int]bool) // over by then
	for _, other := range ops {
		if in := other.Input.(op); in.action == end && other.Call < o.Call-int64(besides) {
			long[in.hold] = true
		}
	}
	for _, other := range ops {
		if in := other.Input.(op); (in.action == grant || in.action > end) && other.Call <= o.Return && !long[in.hold] {
			holds = append(holds, in.hold)
		}
	}
	return holds
}

// until is what had certainly happened at a time, and the ends, and what became of counters, that
// may have.
func until(ops []porcupine.Operation, at int64) (out []porcupine.Operation) {
	granted := make(map[int]bool)
	for _, o := range ops {
		if in := o.Input.(op); in.action == grant && o.Return <= at {
			granted[in.hold] = true
		}
	}
	for _, o := range ops {
		in := o.Input.(op)
		switch {
		case o.Return <= at, in.action == end && o.Call <= at && granted[in.hold]:
			out = append(out, o)
		case in.action.changes() && o.Call <= at:
			in.unknown = true
			o.Input, o.Return = in, never
			out = append(out, o)
		}
	}
	return out
}

func line(o porcupine.Operation) string {
	done := "?"
	if o.Return != never {
		done = time.Duration(o.Return).String()
	}
	return fmt.Sprintf("%v to %s: %v", time.Duration(o.Call), done, o.Input)
}
