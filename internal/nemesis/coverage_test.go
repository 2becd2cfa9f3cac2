package main

import (
	"strings"
	"testing"
	"time"
)

// TestCoverage: coverage returns an error for a run in which too little happened.
func TestCoverage(t *testing.T) {
	h := newHistory(&faultTimeline{})
	for i := range 20 {
		h.add("lock:1", op{action: grant, hold: i}, h.start, h.start)
		h.add("sem:1", op{action: end, hold: i}, h.start, h.start) // an end is not a grant
	}
	h.add("count:7", op{action: take}, h.start, h.start)
	opt := options{length: time.Minute, kinds: []string{"lock"}}
	if err := h.coverage(opt, nil); err != nil {
		t.Errorf("20 grants in a minute: %v", err)
	}
	opt.kinds = []string{"lock", "sem", "count", "rw"}
	err := h.coverage(opt, []string{"network: cut"})
	if err == nil {
		t.Fatal("a run with too few uses of three kinds: got no error")
	}
	for _, want := range []string{`clients used the kind "sem" only 0 times`, `clients used the kind "count" only 1 times`, `the kind "rw"`, `"network: cut" was tried`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if strings.Contains(err.Error(), `"lock"`) {
		t.Errorf("got %v, want nothing about locks", err)
	}
}
