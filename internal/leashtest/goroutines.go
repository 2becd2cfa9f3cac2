package leashtest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

var creatorLine = regexp.MustCompile(`(?m)^created by (\S+)`)

// Goroutines ends Leash by SIGQUIT, so that Go prints the stack of each goroutine. It returns how
// many goroutines there were, by their creator and their current function.
func (l *Leash) Goroutines() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, err := os.ReadFile(l.Log)
	if err == nil {
		err = l.signalLocked(syscall.SIGQUIT)
	}
	if err != nil {
		return "", err
	}
	<-l.done
	l.cmd = nil
	after, err := os.ReadFile(l.Log)
	if err != nil {
		return "", err
	}
	counts := countGoroutines(string(after[len(before):]))
	if len(counts) == 0 {
		return "", errors.New("the log tells of no goroutine")
	}
	var b strings.Builder
	for _, what := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) }) {
		fmt.Fprintf(&b, "  %5d %s\n", counts[what], what)
	}
	return b.String(), nil
}

// ofOthers are prefixes of functions to skip: functions in which a goroutine only waits, and lines
// that are not functions.
var ofOthers = []string{"runtime.", "internal/", "sync.", "syscall.", "net.", "bufio.", "io.", "created by "}

// countGoroutines counts the stacks in a dump, by the first function that is not the runtime's and
// by the creator.
func countGoroutines(dump string) map[string]int {
	counts := make(map[string]int)
	for stack := range strings.SplitSeq(dump, "\n\n") {
		lines := strings.Split(strings.TrimSpace(stack), "\n")
		if !strings.HasPrefix(lines[0], "goroutine ") {
			continue
		}
		where, by := "nowhere", "nobody"
		for _, line := range lines[1:] {
			other := func(prefix string) bool { return strings.HasPrefix(line, prefix) }
			if end := strings.LastIndex(line, "("); end > 0 && line[0] != '\t' && !slices.ContainsFunc(ofOthers, other) {
				where = line[:end]
				break
			}
		}
		if m := creatorLine.FindStringSubmatch(stack); m != nil {
			by = m[1]
		}
		counts[where+", made by "+by]++
	}
	return counts
}
