package renewal

import (
	"testing"
	"time"
)

// TestR24AnswerAboutALease: An answer about a lease may have left the store early or late. The
// lease counts as safe for what the answer says from when the store was asked, which may be a bit
// less than what is left.
func TestR24AnswerAboutALease(t *testing.T) {
	const slow = 850 * time.Millisecond
	for name, left := range map[string]time.Duration{
		"slow on its way there":               ttl - slow,
		"slow on its way back":                ttl,
		"shortened by as much as it was slow": ttl - 2*slow,
		"shortened by much":                   ttl / 2,
		"made to last":                        ttl * 2,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *bench) {
				h, o := w.lease(1, ttl)
				rest(2 * time.Second)
				asked := time.Now()
				rest(slow)
				w.Correct(h, Until(asked, left), asked)
				if got, want := w.Until(h), Until(asked, left); !got.Equal(want) {
					t.Errorf("it is safe for %v longer", got.Sub(want))
				}
				w.Correct(h, Until(asked, ttl/4), asked.Add(-time.Second))
				if got, want := w.Until(h), Until(asked, left); !got.Equal(want) {
					t.Errorf("after an older answer it is safe for %v longer", got.Sub(want))
				}
				o.want(t, "")
			})
		})
	}
}

// TestCorrectOfAHoldThatIsRenewed: Correct has no effect on a hold that is renewed or not kept.
func TestCorrectOfAHoldThatIsRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *bench) {
		h, _ := w.grant(1, ttl)
		before := w.Until(h)
		w.Correct(h, time.Now().Add(time.Second), time.Now())
		if got := w.Until(h); !got.Equal(before) {
			t.Errorf("it is safe for %v longer", got.Sub(before))
		}
		w.Remove(h)
		w.Correct(h, time.Now().Add(time.Second), time.Now())
		if got := w.Until(h); !got.IsZero() {
			t.Errorf("it is kept until %v", got)
		}
	})
}
