package main

import (
	"testing"
	"time"

	"leash/internal/nemesis/history"
)

// TestContradict: AWAITLOSS must not report the end of a hold that is certain. The exception is a
// hold to which its owner reattached.
func TestContradict(t *testing.T) {
	for _, row := range []struct {
		name    string
		what    string
		at      time.Duration // when AWAITLOSS replied, counted from the grant
		revived time.Duration // 0 for never
		asked   time.Duration
		want    int
	}{
		{"still held", "lost: gone", 0, 0, time.Second, 1},
		{"the question was sent before the reply", "lost: gone", time.Second, 0, time.Second / 2, 0},
		{"the lease was nearly over", "lost: silence", history.TTL - margin/2, 0, history.TTL, 0},
		{"lost by silence, and still held", "lost: silence", time.Second, 0, 2 * time.Second, 1},
		{"lost by silence, and the owner reattached", "lost: silence", time.Second, time.Second + time.Millisecond, 2 * time.Second, 0},
		{"the owner reattached, and AWAITLOSS replied late", "lost: silence", time.Second + time.Millisecond, time.Second, 2 * time.Second, 0},
		{"lost by silence after the owner reattached", "lost: silence", 2*time.Second + time.Millisecond, time.Second, 3 * time.Second, 1},
		{"the lease was nearly over, and was extended", "extended", time.Second, 0, 2 * time.Second, 0},
		{"the hold ended, and the owner reattached", "ended", time.Second, time.Second + time.Millisecond, 2 * time.Second, 1},
	} {
		start := time.Now()
		w := &worker{tally: history.NewTally(), history: history.NewHistory(&history.FaultTimeline{})}
		b := believe(w.history, &request{mode: "plain", ttl: history.TTL}, "lock:1", "7", 7, start, start)
		if row.revived > 0 {
			b.reattached = start.Add(row.revived)
		}
		b.maybeLost = row.what == "extended"
		b.endNotice.Store(&endNotice{row.what, start.Add(row.at)})
		w.contradict(b, start.Add(row.asked))
		w.contradict(b, start.Add(row.asked))
		if got := len(w.tally.Wrong); got != row.want {
			t.Errorf("%s: got %d violations, want %d", row.name, got, row.want)
		}
	}
}
