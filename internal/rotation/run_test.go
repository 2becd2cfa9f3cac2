package main

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestNothingIsLost is a short run, in which several tokens end.
func TestNothingIsLost(t *testing.T) {
	redistest.TakesLong(t)
	var out strings.Builder
	err := run(options{length: 25 * time.Second, holds: 500, ttl: "1s", dir: t.TempDir()}, &out)
	t.Log(out.String())
	if err != nil {
		t.Error(err)
	}
}
