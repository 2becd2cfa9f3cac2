package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun measures a Redis and a cluster briefly. All processes must have ended afterwards.
func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	args := []string{"--only", "redis,cluster", "--rounds", "1", "--round", "100ms", "--warmup", "50ms", "--clients", "6", "--keys", "60", "--gobench"}
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nBenchmarkRelay/target=redis/pipeline=1-",
		"\nBenchmarkRelay/target=cluster/pipeline=16-",
		"\n| redis   |       16 |",
		"\n| cluster |        1 |",
		"go run ./bench --only redis,cluster",
		"Redis server v=",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, []string{"--only", "redis"}, &strings.Builder{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}
