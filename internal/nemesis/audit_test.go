package main

import (
	"slices"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestLiving: of a read-write lock those count who hold it, and no reader whose time is over while others go on to read.
func TestLiving(t *testing.T) {
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
		got, err := rdb.EvalRO(ctx, living, []string{key, "{" + key + "}:leash"}).StringSlice()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", key, got, err, want)
		}
	}
}
