package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// mastership is from when on a lock was seen at a master.
type mastership struct {
	node string
	from time.Time
}

// masterAt is the master that had a lock at a time, if it had for a while.
func masterAt(seats []mastership, at time.Time, since time.Duration) (node string, ok bool) {
	i := len(seats) - 1
	for ; i >= 0 && seats[i].from.After(at); i-- {
	}
	if i < 0 || seats[i].from.After(at.Add(-since)) {
		return "", false
	}
	return seats[i].node, true
}

// excuses reports whether something that was broken between from and to may have kept a Leash from
// hearing of a node: that node, or the way to it, or that Leash, or what is everywhere, or where
// nobody knows. What is broken of another node is no excuse.
func (w *faultTimeline) excuses(from, to time.Time, node, leash string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.spells {
		if s.from.After(to) || !s.to.IsZero() && s.to.Add(aftermath).Before(from) {
			continue
		}
		elsewhere := !s.upstream // a client's, or another Leash's
		for _, where := range s.where {
			switch {
			case where == node, where == leash && strings.HasPrefix(s.name, "leash"), strings.HasPrefix(where, "the slot of"):
				return true
			}
			elsewhere = true
		}
		if !elsewhere {
			return true
		}
	}
	return false
}

// silenced is an error when a Leash lost a lock since its master did not answer, and nothing was
// broken there: as when one master that is silent holds up the renewals at others. Nobody is harmed
// by that but the holder, who is told.
func (h *history) silenced(seats map[string][]mastership) error {
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
			node, ok := masterAt(seats[key], at, longestTTL+aftermath)
			if !ok || h.faults.excuses(at.Add(-longestTTL), at, node, leashName(i)) {
				continue
			}
			text := fmt.Sprintf("%s at %v lost %s, for it did not hear of %s, where nothing was broken", leashName(i), h.when(at), key, node)
			if len(wrong) < storiesTold {
				text += "\n    in the order of time\n" + h.eventsOf(key, nil, h.at(at.Add(-storyBefore)), h.at(at.Add(storyAfter)))
			}
			wrong = append(wrong, text)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(slices.Insert(wrong, 0, fmt.Sprintf("%d locks were lost for nothing:", len(wrong))), "\n  "))
}

// lostBySilence reads a line of a Leash's log.
func lostBySilence(line string) (key string, at time.Time, ok bool) {
	stamp, rest, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
	at, err := time.Parse(time.RFC3339, stamp)
	_, key, named := strings.Cut(rest, " key=")
	key, _, _ = strings.Cut(key, " ")
	return key, at, err == nil && named && strings.Contains(rest, `msg="lock lost"`) && strings.Contains(rest, " reason=silence")
}
