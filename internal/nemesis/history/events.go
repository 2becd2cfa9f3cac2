package history

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	reportBefore = 6 * time.Second // how long before an error its report begins
	reportAfter  = time.Second     // how long after an error its report ends
	reportLines  = 400             // the most lines of one report
	maxReports   = 3               // the most reports for errors of one kind
	eventIndent  = "      "        // before each event of a report
)

// event is something that happened, for the report of an error.
type event struct {
	at   int64 // ns since the start
	what string
}

// maxHoldEvents is how many events of one hold are kept at most.
const maxHoldEvents = 40

// NoteHold notes what happened to a hold. If there are too many events, it keeps the first one and
// the latest ones.
func (h *History) NoteHold(hold int, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := append(h.holdEvents[hold], event{h.At(time.Now()), fmt.Sprintf("hold %d: %s", hold, text)})
	if len(events) > maxHoldEvents {
		events = append(events[:1], events[len(events)-maxHoldEvents/2:]...)
	}
	h.holdEvents[hold] = events
}

// NoteLock notes what happened to a lock, whichever client held it.
func (h *History) NoteLock(key string, at time.Time, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lockEvents[key] = append(h.lockEvents[key], event{h.At(at), fmt.Sprintf(format, args...)})
}

// eventsOf returns what happened to a lock between two times, in the order of time. It includes
// what Redis had of the lock, what was broken, and what the Leashes logged. It also includes all
// events of the given holds, from their beginning on. h.mu must not be held.
func (h *History) eventsOf(key string, holds []int, from, to int64) string {
	keys := []string{key}
	if key == QuorumKey {
		keys = append(keys, QuorumKeys...)
	}
	h.mu.Lock()
	var events []event
	for _, key := range keys {
		for _, e := range h.lockEvents[key] {
			if from <= e.at && e.at <= to {
				events = append(events, e)
			}
		}
	}
	slices.Sort(holds)
	for _, hold := range slices.Compact(holds) {
		events = append(events, h.holdEvents[hold]...)
	}
	h.mu.Unlock()
	events = append(events, h.Faults.events(h.start, from, to)...)
	for i, file := range h.logs {
		events = append(events, h.logged(LeashName(i), file, keys, from, to)...)
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	for _, e := range events[max(0, len(events)-reportLines):] {
		fmt.Fprintf(&b, "%s%-14v %s\n", eventIndent, time.Duration(e.at).Round(10*time.Microsecond), e.what)
	}
	return b.String()
}

// Short returns the lines of an error without the events of its reports. A reader of a log that is
// cut at its start finds them last.
func Short(err error) string {
	var b strings.Builder
	for line := range strings.Lines(err.Error() + "\n") {
		if !strings.HasPrefix(line, eventIndent) && strings.TrimSpace(line) != "" {
			b.WriteString(line)
		}
	}
	return b.String()
}

// granted returns the holds of a lock whose grants were received between two times.
func (h *History) granted(key string, from, to int64) (holds []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.ByKey[key] {
		if in := o.Input.(Op); in.Action == Grant && from <= o.Return && o.Return <= to {
			holds = append(holds, in.Hold)
		}
	}
	return holds
}

// events returns what was broken between two times. It says when each fault began and ended.
func (w *FaultTimeline) events(start time.Time, from, to int64) (events []event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.Periods {
		began, ended := int64(s.From.Sub(start)), int64(Never)
		if !s.To.IsZero() {
			ended = int64(s.To.Sub(start))
		}
		if began > to || ended < from {
			continue
		}
		name := strings.Join(append([]string{s.name}, s.places...), ", ")
		events = append(events, event{began, "FAULT " + name})
		if ended <= to {
			events = append(events, event{ended, "FAULT OVER " + name})
		}
	}
	return events
}

// logged returns what a Leash logged between two times. It leaves out lines about locks that are
// not in keys.
func (h *History) logged(name, file string, keys []string, from, to int64) (events []event) {
	text, err := os.ReadFile(file)
	if err != nil {
		return []event{{from, fmt.Sprintf("%s has no log: %v", name, err)}}
	}
	for line := range strings.Lines(string(text)) {
		stamp, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "time="), " ")
		t, err := time.Parse(time.RFC3339, stamp)
		of := func(key string) bool { return strings.Contains(rest, " key="+key+" ") }
		if err != nil || strings.Contains(rest, " key=") && !slices.ContainsFunc(keys, of) {
			continue
		}
		if at := h.At(t); from <= at && at <= to {
			events = append(events, event{at, name + " logs: " + rest})
		}
	}
	return events
}

// LeashName returns the name in reports of the Leash with an index.
func LeashName(i int) string { return fmt.Sprintf("leash %d", i+1) }
