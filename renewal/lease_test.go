package renewal

import (
	"testing"
	"time"
)

// TestR24SlowAnswerAboutALease: A slow answer about a lease may have left the store early or late.
// Unless it proves that the lease was shortened, the store is asked once more before less is
// accepted.
func TestR24SlowAnswerAboutALease(t *testing.T) {
	const slow = 850 * time.Millisecond
	for _, row := range []struct {
		name    string
		left    time.Duration // the answer of the store
		takes   time.Duration // the time between question and answer
		answers int           // how many answers it takes to accept it
	}{
		{"slow on its way there", ttl - slow, slow, 2},
		{"slow on its way back", ttl, slow, 1},
		{"hardly slow", ttl - slowAnswer/2, slowAnswer / 2, 1},
		{"shortened by as much as it was slow", ttl - 2*slow, slow, 1},
		{"shortened by much", ttl / 2, slow, 1},
		{"made to last", ttl * 2, slow, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *bench) {
				h, o := w.lease(1, ttl)
				before := w.Until(h)
				for n := 1; n <= row.answers; n++ {
					asked := time.Now()
					rest(row.takes)
					count := w.store.count(h)
					w.ReportLeft(h, row.left, asked)
					rest(time.Millisecond)
					want, more := Until(asked, row.left), 0
					if n < row.answers {
						want, more = before, 1
					}
					if got := w.Until(h); !got.Equal(want) {
						t.Errorf("after answer %d it is safe for %v longer than it was, want %v", n,
							got.Sub(before), want.Sub(before))
					}
					if got := w.store.count(h) - count; got != more {
						t.Errorf("after answer %d the store was asked %d times, want %d", n, got, more)
					}
					row.left -= row.takes
				}
				o.want(t, "")
			})
		})
	}
}

// TestR25UnansweredCheckShortensALease: The store is asked once more and does not answer. The
// shorter time then counts, so the lease ends earlier.
func TestR25UnansweredCheckShortensALease(t *testing.T) {
	const slow, cut = 2 * time.Second, 1900 * time.Millisecond
	for name, f := range map[string]fault{"failed and did not apply": notDone,
		"failed, but did apply": doneUnanswered, "no answer": hangs, "its answer is lost": hangsDone} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *bench) {
				h, o := w.lease(1, ttl)
				other, _ := w.grant(2, ttl)
				before, asked := w.Until(h), time.Now()
				rest(slow)
				w.store.mu.Lock()
				w.store.fault = func(string) fault { return f }
				w.store.mu.Unlock()
				w.Check(other) // so the check of h must wait
				rest(time.Millisecond)
				// the lease was shortened, or the question was slow
				w.ReportLeft(h, ttl-cut, asked)
				if got := w.Until(h); !got.Equal(before) {
					t.Errorf("before the store is asked again it ends %v earlier", before.Sub(got))
				}
				rest(maxWait + time.Millisecond)
				if got, want := w.Until(h), Until(asked, ttl-cut); !got.Equal(want) {
					t.Errorf("it is safe for %v longer than what may be", got.Sub(want))
				}
				o.want(t, "")
			})
		})
	}
}

// TestReportLeftOfAHoldThatIsRenewed: ReportLeft has no effect on a hold that is renewed or not
// kept.
func TestReportLeftOfAHoldThatIsRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, _ := w.grant(1, ttl)
		before := w.Until(h)
		w.ReportLeft(h, time.Second, time.Now())
		if got := w.Until(h); !got.Equal(before) {
			t.Errorf("it is safe for %v longer", got.Sub(before))
		}
		w.Remove(h)
		w.ReportLeft(h, time.Second, time.Now())
		if got := w.Until(h); !got.IsZero() {
			t.Errorf("it is kept until %v", got)
		}
	})
}
