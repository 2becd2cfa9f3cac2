package main

import (
	"testing"
	"time"
)

// TestContradict: what AWAITLOSS said of a hold's end must be true of a hold that is certain, but
// where its owner took it up anew.
func TestContradict(t *testing.T) {
	for _, row := range []struct {
		name    string
		what    string
		at      time.Duration // when that was said, since the grant
		revived time.Duration // 0 for never
		asked   time.Duration
		want    int
	}{
		{"the hold is there", "lost: gone", 0, 0, time.Second, 1},
		{"it was asked before", "lost: gone", time.Second, 0, time.Second / 2, 0},
		{"its lease was nearly over", "lost: silence", ttl - margin/2, 0, ttl, 0},
		{"nothing was heard, and it is there", "lost: silence", time.Second, 0, 2 * time.Second, 1},
		{"nothing was heard, and it was taken up anew", "lost: silence", time.Second, time.Second + time.Millisecond, 2 * time.Second, 0},
		{"that was told late", "lost: silence", time.Second + time.Millisecond, time.Second, 2 * time.Second, 0},
		{"nothing was heard since then", "lost: silence", 2*time.Second + time.Millisecond, time.Second, 3 * time.Second, 1},
		{"its lease was nearly over, and was extended", "extended", time.Second, 0, 2 * time.Second, 0},
		{"it has ended, and was taken up anew", "ended", time.Second, time.Second + time.Millisecond, 2 * time.Second, 1},
	} {
		start := time.Now()
		w := &worker{tally: newTally(), history: newHistory(&faultTimeline{})}
		b := w.history.believe(&request{mode: "plain", ttl: ttl}, "lock:1", "7", 7, start, start)
		if row.revived > 0 {
			b.revived = start.Add(row.revived)
		}
		b.vague = row.what == "extended"
		b.told.Store(&endNotice{row.what, start.Add(row.at)})
		w.contradict(b, start.Add(row.asked))
		w.contradict(b, start.Add(row.asked))
		if got := len(w.tally.wrong); got != row.want {
			t.Errorf("%s: blamed %d times, want %d", row.name, got, row.want)
		}
	}
}
