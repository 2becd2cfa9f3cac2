package main

import (
	"net"
	"testing"
	"time"

	"leash/internal/nemesis/history"
	"leash/internal/redistest"
)

// answering returns a client that gets the same reply to every command.
func answering(t *testing.T, reply string) *client {
	mine, its := net.Pipe()
	done := make(chan struct{})
	t.Cleanup(func() { mine.Close(); <-done })
	go func() { // ends with the connection
		defer close(done)
		defer its.Close()
		for commands := redistest.NewClient(its); ; { // commands have the form of replies
			if _, err := commands.Read(); err != nil {
				return
			}
			if _, err := its.Write([]byte(reply + "\r\n")); err != nil {
				return
			}
		}
	}()
	return &client{Client: redistest.NewClient(mine)}
}

// TestInnerRelease: a client that releases one of several counts keeps the rest. If the lease
// expired before the reply, it keeps nothing.
func TestInnerRelease(t *testing.T) {
	for _, row := range []struct {
		name  string
		lease time.Duration // counted from the grant, a second ago; 0 for none
		reply string
		want  int
	}{
		{"done", time.Minute, ":0", 0},
		{"the reply says that the hold ended", time.Minute, ":1", 1},
		{"the lease expired before the reply", time.Second / 2, ":1", 0},
		{"the reply says that a renewed hold ended", 0, ":1", 1},
	} {
		now := time.Now()
		w := &worker{tally: history.NewTally(), history: history.NewHistory(&history.FaultTimeline{}), conn: answering(t, row.reply)}
		b := believe(w.history, &request{mode: "plain", ttl: time.Minute, lease: row.lease}, "lock:1", "7", 7, now.Add(-time.Second), now)
		b.count = 2
		done := w.counts(b, history.InnerRelease, ":0", "LOCK.RELEASE", "lock:1", "TOKEN", "7")
		if got := len(w.tally.Wrong); got != row.want || done != (row.reply == ":0") || b.over != (row.reply == ":1" && row.want == 0) {
			t.Errorf("%s: got %d violations, done %v, over %v", row.name, got, done, b.over)
		}
	}
}
