package history

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
	checkTimeout = time.Minute     // for one property of one lock's history
	partTimeout  = 2 * time.Second // for one part of a wrong history; a dozen parts are checked
)

// Check returns an error for each property of a lock for which no order of the operations fits the
// model. It excepts a history that a forgotten lock or a stepped clock explains, and counts it. At
// the debug level it logs each such history. Call it when nothing writes to the history any more.
func (h *History) Check(out io.Writer, log *slog.Logger) error {
	var errs []error
	excepted, moved := 0, shortened{}
	for _, key := range slices.Sorted(maps.Keys(h.ByKey)) {
		all := h.ByKey[key]
		for _, a := range propertiesOf(key) {
			ops := a.of(all)
			result := a.check(ops, checkTimeout)
			// If the search took too long, there may be no order that fits.
			if result != porcupine.Ok {
				var n shortened
				conflict := ops
				if IsCounter(key) && h.lostCount(ops) {
					excepted++
					result = porcupine.Ok
				} else if risen, changed := h.withHigherTokens(key, ops); a.name == fence.name && changed {
					excepted++
					result = a.check(risen, checkTimeout)
				} else if ops, n = h.withExceptions(key, ops); n != (shortened{}) {
					excepted++
					moved.forgotten += n.forgotten
					moved.stepped += n.stepped
					result = a.check(ops, checkTimeout)
				}
				if result == porcupine.Ok && log.Enabled(context.Background(), slog.LevelDebug) {
					log.Debug("excepted", "lock", key, "is no", a.name, "story", h.conflict(key, a, conflict))
				}
			}
			switch result {
			case porcupine.Illegal:
				errs = append(errs, fmt.Errorf("%s is no %s:\n%s", key, a.name, h.conflict(key, a, ops)))
			case porcupine.Unknown:
				errs = append(errs, fmt.Errorf("%s: %d operations could not be checked in %v", key, len(ops), checkTimeout))
			}
		}
	}
	fmt.Fprintf(out, "%d locks, counters and latches checked, %d beliefs and %d requests; %d histories are excepted, with %d beliefs that ended early as they were forgotten, and %d as a clock was stepped forward\n",
		len(h.ByKey), h.holds, h.requests, excepted, moved.forgotten, moved.stepped)
	return errors.Join(errs...)
}

// of returns the operations that the property is about.
func (a property) of(ops []porcupine.Operation) (out []porcupine.Operation) {
	for _, o := range ops {
		if a.about(o.Input.(Op)) {
			out = append(out, o)
		}
	}
	return out
}

func (a property) check(ops []porcupine.Operation, timeout time.Duration) porcupine.CheckResult {
	if a.exclusion {
		ops = shortest(ops)
	}
	return porcupine.CheckOperationsTimeout(a.model, ops, timeout)
}

// aroundTime is how long before a wrong operation a hold may have ended that a report still lists.
const aroundTime = 3 * time.Second

// conflict reports the first operation with which no order of the history fits the model. It lists
// the holds of the same time and what happened then. A part of the history that takes too long to
// Check counts as right. So conflict may report a later operation than the first.
func (h *History) conflict(key string, a property, ops []porcupine.Operation) string {
	byReturn := slices.SortedFunc(slices.Values(ops), func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	first := sort.Search(len(byReturn), func(i int) bool { return a.check(until(ops, byReturn[i].Return), partTimeout) == porcupine.Illegal })
	if first == len(byReturn) {
		return "  no part of it is wrong by itself"
	}
	wrong := byReturn[first]
	var b strings.Builder
	fmt.Fprintf(&b, "  until %v, with\n    %s\n  beside\n", time.Duration(wrong.Return), line(wrong))
	holds := holdsAround(wrong, ops)
	for _, o := range byReturn {
		if slices.Contains(holds, o.Input.(Op).Hold) {
			fmt.Fprintf(&b, "    %s\n", line(o))
		}
	}
	fmt.Fprintf(&b, "  in the order of time\n%s", h.eventsOf(key, holds, wrong.Call-int64(reportBefore), wrong.Return+int64(reportAfter)))
	return b.String()
}

// holdsAround returns the holds of about the same time as o. They began before o returned, and they
// had not ended long before o began.
func holdsAround(o porcupine.Operation, ops []porcupine.Operation) (holds []int) {
	endedLongBefore := make(map[int]bool) // the holds that ended long before o
	for _, other := range ops {
		if in := other.Input.(Op); in.Action == End && other.Call < o.Call-int64(aroundTime) {
			endedLongBefore[in.Hold] = true
		}
	}
	for _, other := range ops {
		if in := other.Input.(Op); (in.Action == Grant || in.Action > End) && other.Call <= o.Return && !endedLongBefore[in.Hold] {
			holds = append(holds, in.Hold)
		}
	}
	return holds
}

// until returns the operations that had certainly happened at a time. It adds the ends and the
// changes of counters that may have happened by that time.
func until(ops []porcupine.Operation, at int64) (out []porcupine.Operation) {
	granted := make(map[int]bool)
	for _, o := range ops {
		if in := o.Input.(Op); in.Action == Grant && o.Return <= at {
			granted[in.Hold] = true
		}
	}
	for _, o := range ops {
		in := o.Input.(Op)
		switch {
		case o.Return <= at, in.Action == End && o.Call <= at && granted[in.Hold]:
			out = append(out, o)
		case in.Action.changes() && o.Call <= at:
			in.Unknown = true
			o.Input, o.Return = in, Never
			out = append(out, o)
		}
	}
	return out
}

func line(o porcupine.Operation) string {
	done := "?"
	if o.Return != Never {
		done = time.Duration(o.Return).String()
	}
	return fmt.Sprintf("%v to %s: %v", time.Duration(o.Call), done, o.Input)
}
