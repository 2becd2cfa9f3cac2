package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally counts the outcomes of the workers' commands. It is safe for concurrent use.
type tally struct {
	mu    sync.Mutex
	count map[string]map[string]int // by kind of operation and outcome
	waits []time.Duration           // the times that clients waited for a grant
	wrong []violation               // outcomes that no fault explains
}

func newTally() *tally { return &tally{count: make(map[string]map[string]int)} }

func (t *tally) add(kind, outcome string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count[kind] == nil {
		t.count[kind] = make(map[string]int)
	}
	t.count[kind][outcome]++
}

func (t *tally) waited(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits = append(t.waits, d)
}

// violation is an outcome that no fault explains.
type violation struct {
	at   time.Time
	key  string // "" for none
	hold int    // 0 for none
	text string
}

// violation records an outcome that no fault explains. key and hold are empty if it is about none.
func (t *tally) violation(key string, hold int, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong = append(t.wrong, violation{time.Now(), key, hold, fmt.Sprintf(format, args...)})
}

// errored counts an error reply. It records a violation if no fault explains the reply.
func (t *tally) errored(kind, reply string) {
	word, _, _ := strings.Cut(strings.TrimPrefix(reply, "-"), " ")
	t.add(kind, word)
	if word == "ERR" && !strings.Contains(reply, "shutting down") || word == "WRONGTYPE" || word == "CROSSSLOT" || word == "LOCKKIND" {
		t.violation("", 0, "%s was answered %s", kind, reply)
	}
}

// verdict returns an error if there are violations. It shows the events around the first ones.
func (t *tally) verdict(h *history) error {
	t.mu.Lock()
	wrong := slices.Clone(t.wrong)
	t.mu.Unlock()
	if len(wrong) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d wrong answers:", len(wrong))
	for i, c := range wrong[:min(20, len(wrong))] {
		at := h.at(c.at)
		fmt.Fprintf(&b, "\n  at %v: %s", time.Duration(at), c.text)
		if i < maxReports {
			others := h.granted(c.key, at-int64(reportAfter), at+int64(reportAfter))
			fmt.Fprintf(&b, "\n    in the order of time\n%s", h.eventsOf(c.key, append(others, c.hold), at-int64(reportBefore), at+int64(reportAfter)))
		}
	}
	return errors.New(b.String())
}

// String returns the counts, with a line for each kind, and the times that clients waited for a
// grant.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(t.count)) {
		fmt.Fprintf(&b, "  %-14s", kind)
		for _, outcome := range slices.Sorted(maps.Keys(t.count[kind])) {
			fmt.Fprintf(&b, " %s %d,", outcome, t.count[kind][outcome])
		}
		b.WriteString("\n")
	}
	if n := len(t.waits); n > 0 {
		slices.Sort(t.waits)
		fmt.Fprintf(&b, "  %d waited for a grant: half of them %v, 99 of 100 %v, the longest %v\n", n, round(t.waits[n/2]), round(t.waits[n*99/100]), round(t.waits[n-1]))
	}
	return strings.ReplaceAll(b.String(), ",\n", "\n")
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
