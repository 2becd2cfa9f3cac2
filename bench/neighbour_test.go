package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
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
