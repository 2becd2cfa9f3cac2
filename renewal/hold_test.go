package renewal

import (
	"fmt"
	"testing"
	"time"
)

func TestR25AmbiguousFailures(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault fault
	}{
		{"failed and did not apply", notDone},
		{"failed but did apply", doneUnanswered},
		{"hung and did not apply", hangs},
		{"hung but did apply", hangsDone},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *bench) {
				h, o := w.grant(1, ttl)
				w.store.set(always(row.fault))
				rest(15 * time.Second)
				o.want(t, "") // it may still be renewed in time
				w.store.set(nil)
				rest(5 * time.Second)
				if left := w.store.left(h); left < ttl*2/3 {
					t.Errorf("got %v left after the store came back", left)
				}
				o.want(t, "")
				granted := time.Now()
				w.store.set(always(row.fault))
				rest(2 * ttl)
				o.want(t, "lost: "+ReasonSilence)
				if since := o.at.Sub(granted); since > ttl {
					t.Errorf("the loss was reported %v after the last good renewal, want within %v", since, ttl)
				}
			})
		})
	}
}

func TestR25LossIsReportedBeforeTheLeaseEnds(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second, 30 * time.Second,
		time.Hour} {
		t.Run(ttl.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *bench) {
				h, o := w.grant(1234, ttl)
				rest(ttl * 2)
				w.store.set(always(hangs))
				expiry := time.Now().Add(w.store.left(h))
				rest(2 * ttl)
				o.want(t, "lost: "+ReasonSilence)
				if !o.at.Before(expiry) {
					t.Errorf("told %v after the lease was over", o.at.Sub(expiry))
				}
			})
		})
	}
}

func TestR25LateAnswerIsALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, o := w.grant(1, ttl)
		w.mu.Lock()
		h.until = w.now() + time.Millisecond
		g := w.groupOf(h)
		w.mu.Unlock()
		end := g.settle(h, Renewed, w.now(), w.now()+2*time.Millisecond)
		if end == nil {
			t.Fatal("the hold was taken for renewed")
		}
		end()
		o.want(t, "lost: "+ReasonSilence)
	})
}

func TestR25ThreeOutcomes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		var owners []*owner
		for _, how := range []Outcome{Unknown, Released, Moved, Broken} {
			h, o := w.grant(1, ttl)
			w.store.end(h, how)
			owners = append(owners, o)
		}
		_, kept := w.grant(1, ttl)
		rest(11 * time.Second)
		owners[0].want(t, "lost: "+ReasonGone)
		owners[1].want(t, fmt.Sprint("ended: ", Released))
		owners[2].want(t, fmt.Sprint("ended: ", Moved))
		owners[3].want(t, "lost: "+ReasonBroken)
		kept.want(t, "")
	})
}

func TestR25OneHoldHarmsNoOther(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprint("whole=", whole), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *bench) {
				bad, badOwner := w.grant(1, ttl)
				good, goodOwner := w.grant(1, ttl)
				w.store.mu.Lock()
				w.store.poison = func(h *Hold) (bool, bool) { return whole && h == bad, h == bad }
				w.store.mu.Unlock()
				for range 50 {
					rest(time.Second)
					if left := w.store.left(good); left < ttl*2/3-time.Second {
						t.Fatalf("got %v left of the good hold", left)
					}
				}
				goodOwner.want(t, "")
				badOwner.want(t, "lost: "+ReasonSilence)
			})
		})
	}
}

func TestR24LeasesAreCheckedAndNotRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		_, o := w.lease(1, ttl)
		gone, goneOwner := w.lease(1, ttl)
		w.store.end(gone, Unknown)
		rest(11 * time.Second)
		goneOwner.want(t, "lost: "+ReasonGone)
		o.want(t, "")
		rest(ttl)
		o.want(t, fmt.Sprint("ended: ", Expired))
	})
}

// TestR24LeaseEndsWhenTheStoreSaysSo: A lease may have been extended, by a request whose reply is
// late or by another client. After its end by Leash's count nobody may rely on it. Its end is
// reported only when the store confirms it.
func TestR24LeaseEndsWhenTheStoreSaysSo(t *testing.T) {
	for _, ttl := range []time.Duration{300 * time.Millisecond, ttl, time.Hour} {
		inBubble(t, func(t *testing.T, w *bench) {
			h, o := w.lease(1, ttl)
			other, otherOwner := w.lease(1, ttl)
			rest(time.Until(w.Until(h)) - time.Millisecond)
			w.store.mu.Lock()
			w.store.expiry[h] = w.store.expiry[h].Add(ttl)
			ends := w.store.expiry[h]
			w.store.mu.Unlock()
			rest(ttl * 3 / 4)
			otherOwner.want(t, fmt.Sprint("ended: ", Expired))
			if until := w.Until(other); !until.IsZero() {
				t.Errorf("a lease that is over is kept until %v", until)
			}
			o.want(t, "")
			if left := time.Until(w.Until(h)); left > 0 {
				t.Errorf("its owner relies on it for %v more", left)
			}
			w.store.set(always(notDone)) // no answer
			rest(ttl)
			o.want(t, "")
			w.store.set(nil)
			before := w.store.count(h)
			rest(time.Minute)
			o.want(t, fmt.Sprint("ended: ", Expired))
			if o.at.Before(ends) {
				t.Errorf("the end was reported %v too early", ends.Sub(o.at))
			}
			if n := w.store.count(h) - before; n != 1 {
				t.Errorf("asked %d times for a lease that is over, want once", n)
			}
		})
	}
}

// TestR24ExtendedLeaseIsCheckedAsUsual: When the store says that a lease was extended, it is
// checked at the usual interval again.
func TestR24ExtendedLeaseIsCheckedAsUsual(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, o := w.lease(1, ttl)
		w.store.set(always(notDone)) // no answer that it has ended
		rest(ttl)
		w.mu.Lock()
		often := w.groupOf(h).every
		w.mu.Unlock()
		if often > leaseEndInterval {
			t.Errorf("asked every %v for a lease that is over", often)
		}
		w.slept.Store(int64(ttl))
		w.wakeUp()
		rest(time.Second)
		o.want(t, "") // it had ended before the suspend
		w.Correct(h, time.Now().Add(ttl), time.Now())
		w.mu.Lock()
		usual := w.groupOf(h).every
		w.mu.Unlock()
		if usual != ttl/3 {
			t.Errorf("asked every %v, want %v", usual, ttl/3)
		}
	})
}
