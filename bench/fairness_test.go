package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"leash/bench/testbed"

	"github.com/spf13/pflag"
)

// TestFairnessMeasuresEachKind lets two Leashes share each kind of lock briefly.
func TestFairnessMeasuresEachKind(t *testing.T) {
	b := &testbed.Bed{Dir: t.TempDir()}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	leash, err := b.LeashBinary(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	opt := fairnessOptions{options: options{leash: leash}, hold: time.Millisecond, round: time.Second}
	for _, c := range contests {
		f, err := c.measure(t.Context(), b, opt, []site{{0, 2}, {time.Millisecond, 2}})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var grants uint64
		for i := range f.waits {
			w := &f.waits[i]
			if grants += w.Total; w.Total > 0 && (w.Quantile(0.5) <= 0 || f.most[i] < w.Quantile(0.5)/2) {
				t.Errorf("%s, Leash %d: %d grants, median %v, longest %v", c.name, i, w.Total, w.Quantile(0.5), f.most[i])
			}
		}
		if grants == 0 {
			t.Errorf("%s: no grants", c.name)
		}
		if f.calls < 1 { // a hand-over is a grant and a release
			t.Errorf("%s: %.2f scripts for a grant", c.name, f.calls)
		}
	}
}

func TestFairnessOptions(t *testing.T) {
	var out strings.Builder
	if _, err := parseFairnessOptions([]string{"--kinds", "lock,latch"}, &out); err == nil || !strings.Contains(err.Error(), `"latch"`) {
		t.Errorf("got %v", err)
	}
	if _, err := parseFairnessOptions([]string{"now"}, &out); err == nil {
		t.Error("an argument is accepted")
	}
	if _, err := parseFairnessOptions([]string{"--help"}, &out); !errors.Is(err, pflag.ErrHelp) || !strings.Contains(out.String(), "--hold") {
		t.Errorf("got %v, %s", err, out.String())
	}
}
