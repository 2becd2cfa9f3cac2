package limits

import (
	"fmt"
	"strings"
	"time"
)

// Hold is the longest time for which locks may be held whose names match a pattern.
type Hold struct {
	Pattern string // as of KEYS
	Most    time.Duration
}

// leastHold is the shortest time that makes sense.
const leastHold = 100 * time.Millisecond

// ParseHolds reads texts of the form "pattern=30s". The error continues a sentence that begins with
// the text.
func ParseHolds(texts []string) (all []Hold, err error) {
	for _, text := range texts {
		i := strings.LastIndexByte(text, '=')
		if i <= 0 {
			return nil, fmt.Errorf("has %q, which is not a pattern with a time: write order:*=30s", text)
		}
		most, err := time.ParseDuration(text[i+1:])
		if err != nil || most < leastHold {
			return nil, fmt.Errorf("has no time of %s or more for %q: write order:*=30s", leastHold, text[:i])
		}
		all = append(all, Hold{text[:i], most})
	}
	return all, nil
}

// MaxHold returns the shortest time among the patterns that match a name. It is 0 if none does.
func MaxHold(all []Hold, name string, match func(pattern, name string) bool) (most time.Duration) {
	for _, h := range all {
		if (most == 0 || h.Most < most) && match(h.Pattern, name) {
			most = h.Most
		}
	}
	return most
}
