package main

import (
	"testing"
	"time"

	"leash/internal/nemesis/history"
)

// TestEarlyLoss: Leash must not deny a hold that was certain, unless LOCK.BREAK ended it.
func TestEarlyLoss(t *testing.T) {
	for _, row := range []struct {
		name   string
		mode   string
		age    time.Duration
		broken bool
		reply  string
		want   int
	}{
		{"lost", "plain", 0, false, "-LOCKLOST lock:1 gone", 1},
		{"not held", "plain", 0, false, "-LOCKNOTHELD no such hold", 1},
		{"not held, says LOCK.CHECK", "plain", 0, false, ":0", 1},
		{"no such permit", "permit", 0, false, "-SEMNOTHELD there is no such permit", 1},
		{"a permit too few", "permit", 0, false, ":1", 1},
		{"no reply from Redis", "permit", 0, false, "-LOCKTIMEOUT Redis did not answer", 0},
		{"in its last moment", "permit", history.TTL, false, "-SEMNOTHELD there is no such permit", 0},
		{"broken", "plain", 0, true, "-LOCKLOST lock:1 broken", 0},
	} {
		now := time.Now()
		w := &worker{tally: history.NewTally(), history: history.NewHistory(&history.FaultTimeline{})}
		b := believe(w.history, &request{mode: row.mode, ttl: history.TTL}, "lock:1", "7", 7, now.Add(-row.age), now)
		if row.broken {
			w.history.Forget("lock:1", false)(false, 0)
		}
		w.checkEarlyLoss(b, "a question", row.reply)
		if got := len(w.tally.Wrong); got != row.want {
			t.Errorf("%s: got %d violations, want %d", row.name, got, row.want)
		}
	}
}

// TestWhatALossIsAbout: LOCK.MRELEASE names the one of its holds that was lost. The others were
// certain, and that is no fault.
func TestWhatALossIsAbout(t *testing.T) {
	g := holdGroup{{key: "lock:3"}, {key: "lock:1"}}
	for reply, want := range map[string]string{
		"-LOCKLOST lock:1 broken":             "lock:1",
		"-LOCKLOST lock:3 broken":             "lock:3",
		"-LOCKNOTHELD there is no such hold":  "lock:3",
		"-LOCKLOST lock:7 of another command": "lock:3",
	} {
		if got := g.about(reply).key; got != want {
			t.Errorf("%s: about %s, want %s", reply, got, want)
		}
	}
}
