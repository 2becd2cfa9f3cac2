package limits

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

// NameHolds limits how many locks and permits are held at once whose names match a pattern. Safe
// for concurrent use.
type NameHolds struct {
	match    func(pattern, name string) bool
	patterns []*patternHolds
}

type patternHolds struct {
	pattern string // as of KEYS
	most    int64
	now     atomic.Int64
}

// ParseNameHolds reads texts of the form "pattern=100". The error continues a sentence that begins
// with the text.
func ParseNameHolds(texts []string, match func(pattern, name string) bool) (*NameHolds, error) {
	all := &NameHolds{match: match}
	for _, text := range texts {
		i := strings.LastIndexByte(text, '=')
		if i <= 0 {
			return nil, fmt.Errorf("has %q, which is not a pattern with a number: write order:*=100", text)
		}
		n, err := strconv.ParseInt(text[i+1:], 10, 64)
		if err != nil || n < 1 || n > most {
			return nil, fmt.Errorf("has no number from 1 to %d for %q: write order:*=100", most, text[:i])
		}
		all.patterns = append(all.patterns, &patternHolds{pattern: text[:i], most: n})
	}
	return all, nil
}

// Full returns the first pattern of which there would be too many, if each of the names was held n
// times more. It is empty if there is room for all.
func (l *NameHolds) Full(names []string, n int64) (pattern string) {
	for _, p := range l.patterns {
		more := int64(0)
		for _, name := range names {
			if l.match(p.pattern, name) {
				more += n
			}
		}
		if more > 0 && p.now.Load()+more > p.most {
			return p.pattern
		}
	}
	return ""
}

// Add changes how often a name is held.
func (l *NameHolds) Add(name string, n int64) {
	for _, p := range l.patterns {
		if l.match(p.pattern, name) {
			p.now.Add(n)
		}
	}
}
