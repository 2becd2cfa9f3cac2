package main

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestNothingIsLost is a short run, in which three tokens end. They last longer than in a long run,
// because the machine may have much other work.
func TestNothingIsLost(t *testing.T) {
	redistest.TakesLong(t)
	var out strings.Builder
	err := run(options{length: 42 * time.Second, holds: 500, lasts: 30 * time.Second, ttl: "1s", dir: t.TempDir()}, &out)
	t.Log(out.String())
	if err != nil {
		t.Error(err)
	}
}
