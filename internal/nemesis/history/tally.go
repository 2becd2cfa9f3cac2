package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tally counts the outcomes of the workers' commands. It is safe for concurrent use.
type Tally struct {
	mu    sync.Mutex
	count map[string]map[string]int // by kind of operation and outcome
	waits []time.Duration           // the times that clients waited for a grant
	Wrong []violation               // outcomes that no fault explains
}

// NewTally makes a Tally that has counted nothing.
func NewTally() *Tally { return &Tally{count: make(map[string]map[string]int)} }

// Add counts an outcome of a kind of operation.
func (t *Tally) Add(kind, outcome string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count[kind] == nil {
		t.count[kind] = make(map[string]int)
	}
	t.count[kind][outcome]++
}

// Waited notes how long a client waited for a grant.
func (t *Tally) Waited(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits = append(t.waits, d)
}

// Violation is an outcome that no fault explains.
type violation struct {
	at   time.Time
	key  string // "" for none
	hold int    // 0 for none
	text string
}

// Violation records an outcome that no fault explains. key and hold are empty if it is about none.
func (t *Tally) Violation(key string, hold int, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Wrong = append(t.Wrong, violation{time.Now(), key, hold, fmt.Sprintf(format, args...)})
}

// Errored counts an error reply. It records a violation if no fault explains the reply.
func (t *Tally) Errored(kind, reply string) {
	word, _, _ := strings.Cut(strings.TrimPrefix(reply, "-"), " ")
	t.Add(kind, word)
	if word == "ERR" && !strings.Contains(reply, "shutting down") || word == "WRONGTYPE" || word == "CROSSSLOT" || word == "LOCKKIND" {
		t.Violation("", 0, "%s was answered %s", kind, reply)
	}
}

// Verdict returns an error if there are violations. It shows the events around the first ones.
func (t *Tally) Verdict(h *History) error {
	t.mu.Lock()
	wrong := slices.Clone(t.Wrong)
	t.mu.Unlock()
	if len(wrong) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d wrong answers:", len(wrong))
	for i, c := range wrong[:min(20, len(wrong))] {
		at := h.At(c.at)
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
func (t *Tally) String() string {
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
		fmt.Fprintf(&b, "  %d waited for a grant: half of them %v, 99 of 100 %v, the longest %v\n", n, Round(t.waits[n/2]), Round(t.waits[n*99/100]), Round(t.waits[n-1]))
	}
	return strings.ReplaceAll(b.String(), ",\n", "\n")
}

// Round is a duration as it is printed.
func Round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
