package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"leash/bench/load"
)

// TestRunNeighbour measures each row once.
func TestRunNeighbour(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	if err := run(t.Context(), strings.Fields("neighbour --rounds 1 --round 1s --clients 200"), &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		`absent +\| +0 \| +0 \| +0`, `at the limit +\| +\d+ \| +\d+ \| +\d+`,
		`10 times, at another Leash +\| +\d+ \| +\d+ \| +\d+`, `10 times, at the same +\| +\d+ \| +\d+ \| +\d+`,
	} {
		if !regexp.MustCompile(`\| ` + row + ` \| +\d+\.\d\d \| +\d+\.\d{3} \|`).MatchString(out.String()) {
			t.Errorf("no row %s in\n%s", row, out.String())
		}
	}
}

// TestNeighbourChange checks a change that is the same in all rounds but one.
func TestNeighbourChange(t *testing.T) {
	var one, other neighbour
	for round := range time.Duration(9) {
		var h, twice load.Histogram
		for i := range time.Duration(1000) {
			h.Add(i * time.Microsecond)
			twice.Add(2 * i * time.Microsecond)
			if round == 4 { // the machine was busy
				twice.Add(i * time.Millisecond)
			}
		}
		one.samples, other.samples = append(one.samples, &h), append(other.samples, &twice)
	}
	if ratio, least, most := other.changeFrom(&one); ratio < 1.95 || ratio > 2.05 || least < 1.95 || most > 2.05 {
		t.Errorf("got %.2f, %.2f to %.2f, want 2", ratio, least, most)
	}
}

func TestNeighbourOptions(t *testing.T) {
	var out strings.Builder
	if _, err := parseNeighbourOptions([]string{"--limit", "10"}, &out); err == nil || !strings.Contains(err.Error(), "--limit") {
		t.Errorf("got %v", err)
	}
	if _, err := parseNeighbourOptions([]string{"now"}, &out); err == nil {
		t.Error("an argument is accepted")
	}
	if _, err := parseNeighbourOptions([]string{"--help"}, &out); !errors.Is(err, pflag.ErrHelp) || !strings.Contains(out.String(), "ten times") {
		t.Errorf("got %v, %s", err, out.String())
	}
}
