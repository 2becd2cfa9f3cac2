package lockcmd

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	// how long a round waits for a node that does not answer
	quorumPatience = time.Second
	quorumGrace    = 100 * time.Millisecond // and when there is a quorum without it
	minBackOff     = 10 * time.Millisecond
	maxBackOff     = 200 * time.Millisecond
)

// takeMost takes at least n of the keys: it tries all, and gives back what it got when that are
// fewer. It waits with nothing in hand, so nobody waits for it, neither for long nor in a ring.
// That two callers do not for ever take half of the keys each is seen to by chance, as on an
// Ethernet: who has failed stays away for a random time, twice as long after each time. Then it
// waits until one of the keys that were taken is to be had, and tries for the rest with that in
// hand. On one Leash those who want the same keys stand in line, and the first one tries.
func (a *assembly) takeMost() result {
	s, n := a.carrier.service, a.bound
	if a.mayWait() {
		turn := s.lines.join(a.line())
		defer s.lines.leave(turn, true)
		if r := a.awaitTurn(turn); r.kind != granted {
			return r
		}
	}
	for window := minBackOff; ; {
		until := time.Now().Add(quorumPatience)
		if deadline := a.deadline(); deadline.Before(until) {
			until = deadline
		}
		looks := a.look(n, until)
		if r := a.complete(n); r.kind != taken {
			return r
		}
		a.drop(0)
		r, wait := a.judge(looks, n)
		if !wait {
			return r
		}
		if !a.beginWait() {
			return result{kind: failed, text: msgLimit}
		}
		if stop := a.pause(time.Duration(rand.Int64N(int64(window)))); stop.kind != granted {
			return stop
		}
		if a.over() {
			return r
		}
		window = min(2*window, maxBackOff)
		if !a.awaitOne(looks) {
			window = minBackOff
		}
	}
}

// line is where those stand on this Leash who want the same keys.
func (a *assembly) line() lineID {
	var set strings.Builder
	for _, w := range a.wishes {
		set.WriteString(strconv.Itoa(len(w.key)) + ":" + w.key)
	}
	return lineID{lockID{a.wishes[0].db, set.String()}, "quorum"}
}

func (a *assembly) over() bool {
	return !a.end.IsZero() && !time.Now().Before(a.end) || a.carrier.isUnblocked()
}

// awaitTurn waits to be the first in the line.
func (a *assembly) awaitTurn(t *turn) result {
	s := a.carrier.service
	for !s.lines.look(t) {
		if !a.beginWait() {
			return result{kind: failed, text: msgLimit}
		}
		if r := a.rest(t.wake, time.Hour); r.kind != granted {
			return r
		}
		if a.over() {
			return result{kind: taken}
		}
	}
	return result{kind: granted}
}

// pause does nothing for a time.
func (a *assembly) pause(d time.Duration) result { return a.rest(nil, d) }

// rest waits until woken, for d or for what is left of BLOCK. It is granted that the command goes
// on.
func (a *assembly) rest(wake <-chan struct{}, d time.Duration) result {
	if left := a.left(); left > 0 {
		d = min(d, left)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-a.ctx.Done():
		return result{kind: failed, text: msgGone}
	case <-wake:
	case <-a.carrier.unblocked():
	case <-timer.C:
	}
	if a.carrier.service.draining.Load() {
		return result{kind: failed, text: msgDraining}
	}
	return result{kind: granted}
}

// judge says of a round that brought fewer than n keys what to answer if it was the last, and
// whether there may be another. While fewer than n are either to be had or held by somebody, it is
// not that they are taken.
func (a *assembly) judge(looks []got, n int) (r result, again bool) {
	least, hopeless := len(a.wishes)-n, 0 // how many may be missing
	r = result{kind: taken}
	var wrong result
	errors := 0
	for _, l := range looks {
		if l.hold != nil || l.result.text == "" {
			continue
		}
		if errors++; wrong.text == "" || l.result.kind == failed {
			wrong = l.result
		}
		if l.result.kind == failed {
			hopeless++
		}
	}
	if errors > least {
		r = wrong
	}
	if a.ctx.Err() != nil {
		return result{kind: failed, text: msgGone}, false
	}
	return r, a.mayWait() && hopeless <= least && !a.over()
}

// awaitOne waits at the first key that was taken, for about a second: others may be to be had by
// then. Where none was taken, Redis did not answer, and it lets a little time pass. It reports
// whether it has a key in hand.
func (a *assembly) awaitOne(looks []got) bool {
	s := a.carrier.service
	first := -1
	for _, l := range looks {
		if l.result.kind == taken && l.hold == nil && (first < 0 || l.index < first) {
			first = l.index
		}
	}
	if first < 0 {
		a.pause(s.lookAgain(result{kind: busy}, rand.Float64()))
		return false
	}
	block := s.lookAgain(result{}, rand.Float64())
	if left := a.left(); left > 0 {
		block = min(block, left)
	}
	return a.take(first, block).kind == granted
}
