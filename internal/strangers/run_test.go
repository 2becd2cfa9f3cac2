package main

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/resp"
)

// TestNobodyNotices is a short run.
func TestNobodyNotices(t *testing.T) {
	redistest.NeedsCluster(t)
	var out strings.Builder
	err := runMutations(options{length: 20 * time.Second, strangers: 8, seed: 1, dir: t.TempDir()}, &out)
	t.Log(out.String())
	if err != nil {
		t.Error(err)
	}
}

// TestMutations checks that one seed makes the same streams again, and that most are not valid.
func TestMutations(t *testing.T) {
	if hello := hello(); len(hello) < 100 || hello[0] != 0x16 {
		t.Errorf("a TLS client begins with %q", hello)
	}
	odd := 0
	a, b := random(7, 1), random(7, 1)
	for range 1000 {
		one, other := stream(a), stream(b)
		if string(one) != string(other) {
			t.Fatalf("%q, then %q", one, other)
		}
		if _, ok := resp.ParseRequest(one); !ok {
			odd++
		}
	}
	if odd < 100 {
		t.Errorf("only %d of 1000 streams are no command", odd)
	}
}
