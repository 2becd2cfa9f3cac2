package hold

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// Names in the order of the constants.
var (
	stateNames = [states]string{"granting", "held", "decrementing", "missing", "releasing", "leaving", "ending", "over"}
	eventNames = [events]string{
		"attached", "acquired", "releaseOne", "releaseAll", "resumed", "ended", "attachedElsewhere", "elsewhere",
		"notFound",
		"vanished", "expired", "evicted", "dropped", "closedToRelease", "closedToExpire",
	}
	effectNames = [...]string{
		"tellLoss", "tellMove", "reportReleased", "reportMoved", "leaveToExpire", "startRelease", "askSoon",
		"checkLimits",
	}
)

// String describes a transition for the test's table.
func (t transition) String() string {
	text := stateNames[t.to]
	for i, name := range effectNames {
		if t.effects&(1<<i) != 0 {
			text += " " + name
		}
	}
	return text
}

// forEachTransition calls do for every pair of a state and an event. t is the zero value where the
// event is refused.
func forEachTransition(do func(s State, e Event, t transition)) {
	for s := range states {
		for e := range events {
			do(s, e, transitions[s][e])
		}
	}
}

// reach returns the states that a hold in one of the states may come to, these included.
func reach(from ...State) (set [states]bool) {
	for _, s := range from {
		set[s] = true
	}
	for range states {
		forEachTransition(func(s State, _ Event, t transition) {
			if set[s] && t != (transition{}) {
				set[t.to] = true
			}
		})
	}
	return set
}

// TestHoldTransitions: Every event in every state has the listed outcome, or it is refused.
func TestHoldTransitions(t *testing.T) {
	t.Parallel()
	want := make(map[string]string)
	for line := range strings.Lines(holdTransitions) {
		of, outcome, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for s := range strings.SplitSeq(strings.Fields(of)[0], ",") {
			want[s+" "+strings.Fields(of)[1]] = outcome
		}
	}
	forEachTransition(func(s State, e Event, tr transition) {
		of, got := stateNames[s]+" "+eventNames[e], ""
		if tr != (transition{}) {
			got = tr.String()
		}
		if got != want[of] {
			t.Errorf("%s: got %q, want %q", of, got, want[of])
		}
		delete(want, of)
	})
	if len(want) != 0 {
		t.Errorf("no such pairs: %v", want)
	}
}

// holdTransitions has the states, the event, the new state and the effects.
const holdTransitions = `granting attached: held
	granting closedToRelease: ending startRelease
	granting closedToExpire: over leaveToExpire
	held acquired: held
	held releaseOne: decrementing
	held releaseAll: releasing
	decrementing resumed: held
	releasing resumed: held checkLimits
	missing resumed: held askSoon
	leaving resumed: over leaveToExpire
	ending resumed: ending startRelease
	held,decrementing,missing,releasing,leaving,ending ended: over reportReleased
	held,decrementing,missing,releasing attachedElsewhere: over tellMove reportMoved
	leaving,ending attachedElsewhere: over reportMoved
	held,decrementing,missing,releasing,leaving,ending elsewhere: over reportMoved
	held,decrementing,missing,releasing notFound: over tellLoss
	leaving,ending notFound: over reportReleased
	held vanished: over tellLoss
	decrementing vanished: missing
	held,decrementing,missing expired: over tellLoss
	held evicted: ending tellLoss startRelease
	decrementing,missing evicted: ending tellLoss
	held dropped: over reportReleased
	held closedToRelease: ending startRelease
	decrementing,missing,releasing closedToRelease: ending
	held,decrementing,missing closedToExpire: over leaveToExpire
	releasing closedToExpire: leaving`

// TestHoldRules: The table obeys the rules, whatever happens in whatever order.
func TestHoldRules(t *testing.T) {
	t.Parallel()
	const reports = tellLoss | ReportReleased | ReportMoved | LeaveToExpire
	const toClient = tellLoss | tellMove
	forEachTransition(func(s State, e Event, tr transition) {
		if tr == (transition{}) {
			return
		}
		of := fmt.Sprintf("%s %s: %s", stateNames[s], eventNames[e], tr)
		later := func(what Effects) (found bool) {
			set := reach(tr.to)
			forEachTransition(func(s State, _ Event, next transition) {
				found = found || set[s] && next.effects&what != 0
			})
			return found
		}
		rule := func(ok bool, text string) {
			if !ok {
				t.Errorf("%s: %s", of, text)
			}
		}
		tells, starts := tr.effects&tellLoss != 0, tr.effects&StartRelease != 0
		counting, closing := s == Decrementing || s == Missing, e == ClosedToRelease || e == closedToExpire
		rule(s != Over, "what is over stays over")
		rule(!tells || !later(toClient), "the client is told of a loss once, and of nothing later")
		rule(!closing || tr.effects&toClient == 0 && !later(toClient), "nobody is told after the end of the connection")
		rule(!tells || s.isReliedOn() || s == releasing && e == notFound,
			"a released hold is no loss unless it is missing")
		rule(bits.OnesCount8(uint8(tr.effects&reports)) <= 1, "those who wait for the end are told one thing")
		rule(tr.to != Over || tr.effects&reports != 0, "those who wait for the end are told")
		rule(!starts || tr.to == ending, "Leash releases only what it is ending")
		rule(tr.to != ending || starts || s.IsEnding() || counting, "what is ending has a release in progress")
		rule(e != resumed || s.IsEnding() || counting, "only a release is resumed")
		rule(!tr.to.isRenewed() || s.isRenewed() || e == attached || e == resumed, "a hold is not renewed anew")
		rule(reach(tr.to)[Over], "every hold can end")
	})
	for s, reached := range reach(granting) {
		if !reached {
			t.Errorf("no hold becomes %s", stateNames[s])
		}
	}
}

// TestHoldUnderRandomEvents: Events come in any order and at the same time. The client is told of
// at most one loss or move. Each hold ends once, and everybody who waits for its end is told once.
func TestHoldUnderRandomEvents(t *testing.T) {
	t.Parallel()
	for round := range 300 {
		l := newLeash()
		c := l.connect()
		c.carrier.StartPushes()
		c.carrier.EndAnswer()
		h := c.take(t, Grant{Key: "lock", Mode: script.Plain, Owner: "me", Token: 1, TTL: time.Minute,
			Terms: script.Terms{Flags: script.Flags{ErrorOnLoss: round%2 == 0}}})
		told := []chan string{h.WatchEnd(), h.WatchEnd()}
		var trace sync.Map
		var wg sync.WaitGroup
		for n := range 3 {
			wg.Go(func() {
				for range 8 {
					e := releaseOne + Event(rand.N(int(closedToExpire-releaseOne)))
					if e == ClosedToRelease && n > 0 { // there is one end of the connection
						continue
					}
					reason := ""
					if transitions[Held][e].effects&tellLoss != 0 {
						reason = renewal.ReasonGone
					}
					if h.apply(e, reason) {
						trace.Store(fmt.Sprint(n, eventNames[e]), nil)
					}
				}
			})
		}
		wg.Wait()
		c.carrier.End(Ending(round % 2))
		h.Apply(Ended) // the answer to a release that is in progress
		for e := range events {
			if h.Apply(e) {
				t.Errorf("a hold that is over takes the event %s", eventNames[e])
			}
		}
		for _, v := range told {
			if len(v) != 1 {
				t.Errorf("told %d times of the end", len(v))
			}
		}
		if n := len(c.ended) + len(c.carrier.losses.unreported); n > 1 {
			t.Errorf("the client is told %d times", n)
		}
		indexed := l.Find(h.Lock(), func(*Hold) bool { return true }) != nil
		if c.carrier.Holds() != 0 || c.attention != Relaxed || indexed || !h.SafeUntil().IsZero() ||
			l.Stats.Holds.Load() != 0 {
			t.Error("something still knows it")
		}
		if t.Failed() {
			trace.Range(func(e, _ any) bool { t.Log(e); return true })
			t.FailNow()
		}
	}
}
