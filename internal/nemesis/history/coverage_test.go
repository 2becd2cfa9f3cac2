package history

import (
	"strings"
	"testing"
	"time"
)

// TestCoverage: coverage returns an error for a run in which too little happened.
func TestCoverage(t *testing.T) {
	h := NewHistory(&FaultTimeline{})
	for i := range 20 {
		h.Add("lock:1", Op{Action: Grant, Hold: i}, h.start, h.start)
		h.Add("sem:1", Op{Action: End, Hold: i}, h.start, h.start) // an end is not a grant
	}
	h.Add("count:7", Op{Action: Take}, h.start, h.start)
	kinds := []string{"lock"}
	if err := h.Coverage(kinds, time.Minute, nil); err != nil {
		t.Errorf("20 grants in a minute: %v", err)
	}
	kinds = []string{"lock", "sem", "count", "rw"}
	err := h.Coverage(kinds, time.Minute, []string{"network: cut"})
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
