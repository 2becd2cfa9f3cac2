package main

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/nemesis/history"
	"leash/internal/redistest"
)

// TestIdle: a lock must not be free for long while a client waits for it. The grace period allows a
// longer time only after a failover.
func TestIdle(t *testing.T) {
	for _, crowned := range []bool{false, true} {
		start := time.Now()
		timeline := &history.FaultTimeline{Periods: []*history.FaultPeriod{{NewMaster: crowned, From: start, To: start}}}
		a := newAudit(&testbed{}, history.NewHistory(timeline), history.NewTally(), 5*time.Second)
		defer a.waiting("lock:1")()
		node := &redistest.Node{Server: &redistest.Server{}}
		look := func(s int) int {
			a.readRecords(seen{node, "lock:1", start.Add(time.Duration(s) * time.Second), redis.NewDurationCmd(t.Context(), 0), true}, nil)
			return len(a.tally.Wrong)
		}
		look(0)
		if n := look(7); crowned && n > 0 || !crowned && n == 0 {
			t.Errorf("new master: %v; a lock that was free for 7 s: got %d violations", crowned, n)
		}
		if look(12) == 0 {
			t.Errorf("new master: %v; a lock that was free for 12 s: got no violation", crowned)
		}
	}
}

// TestLiveHolds: liveHolds returns the holds that hold a read-write lock. It leaves out a reader
// that has expired while other readers hold the lock.
func TestLiveHolds(t *testing.T) {
	rdb := redistest.Start(t).Client()
	ctx := t.Context()
	do := func(args ...any) {
		t.Helper()
		if err := rdb.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	do("HSET", "rw", "mode", "read", "alive", 2, "dead", 1, "java", 1)
	do("HSET", "{rw}:leash", "alive", "of alive", "dead", "of dead", "gone", "of gone")
	do("SET", "{rw}:alive:rwlock_timeout:2", 1, "PX", time.Hour.Milliseconds())
	do("SET", "{rw}:java:rwlock_timeout:1", 1)
	do("HSET", "written", "mode", "write", "me:write", 1)
	do("HSET", "{written}:leash", "me:write", "of me")
	for key, want := range map[string][]string{"rw": {"of alive"}, "written": {"of me"}, "free": {}} {
		got, err := rdb.EvalRO(ctx, liveHolds, []string{key, "{" + key + "}:leash"}).StringSlice()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", key, got, err, want)
		}
	}
}
