package history

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// MasterPeriod says that a lock was seen at a master from a time on.
type MasterPeriod struct {
	Node string
	From time.Time
}

// masterAt returns the master of a lock at a time. It returns false if the lock had not been there
// for as long as since.
func masterAt(masters []MasterPeriod, at time.Time, since time.Duration) (node string, ok bool) {
	i := len(masters) - 1
	for ; i >= 0 && masters[i].From.After(at); i-- {
	}
	if i < 0 || masters[i].From.After(at.Add(-since)) {
		return "", false
	}
	return masters[i].Node, true
}

// mayExplain reports whether a fault between from and to may explain that a Leash got no reply from
// a node. Such a fault is one of the node, of the way to it, of this Leash, of everything, or of an
// unknown place. A fault of another node explains nothing.
func (w *FaultTimeline) mayExplain(from, to time.Time, node, leash string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.Periods {
		if s.From.After(to) || !s.To.IsZero() && s.To.Add(recoveryTime).Before(from) {
			continue
		}
		otherPlace := !s.Upstream // a fault of clients or of another Leash
		for _, where := range s.places {
			switch {
			case where == node, where == leash && strings.HasPrefix(s.name, "leash"), strings.HasPrefix(where, "the slot of"):
				return true
			}
			otherPlace = true
		}
		if !otherPlace {
			return true
		}
	}
	return false
}

// CheckSilentLosses returns an error if a Leash lost a lock because its master did not answer,
// although that master had no fault. This happens if one silent master delays the renewals at
// others. It harms only the holder, and Leash tells the holder.
func (h *History) CheckSilentLosses(masters map[string][]MasterPeriod) error {
	var wrong []string
	for i, file := range h.logs {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			key, at, ok := lostBySilence(line)
			if !ok {
				continue
			}
			node, ok := masterAt(masters[key], at, LongestTTL+recoveryTime)
			if !ok || h.Faults.mayExplain(at.Add(-LongestTTL), at, node, LeashName(i)) {
				continue
			}
			text := fmt.Sprintf("%s at %v lost %s because %s did not answer, although nothing was broken there", LeashName(i), h.When(at), key, node)
			if len(wrong) < maxReports {
				text += "\n    in the order of time\n" + h.eventsOf(key, nil, h.At(at.Add(-reportBefore)), h.At(at.Add(reportAfter)))
			}
			wrong = append(wrong, text)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(slices.Insert(wrong, 0, fmt.Sprintf("%d locks were lost without a reason:", len(wrong))), "\n  "))
}

// lostBySilence parses a line of a Leash's log. If a lock was lost by silence, it returns the lock
// and the time.
func lostBySilence(line string) (key string, at time.Time, ok bool) {
	stamp, rest, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
	at, err := time.Parse(time.RFC3339, stamp)
	_, key, named := strings.Cut(rest, " key=")
	key, _, _ = strings.Cut(key, " ")
	return key, at, err == nil && named && strings.Contains(rest, `msg="lock lost"`) && strings.Contains(rest, " reason=silence")
}
