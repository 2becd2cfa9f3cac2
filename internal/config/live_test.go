package config

import (
	"slices"
	"strings"
	"testing"
)

// TestSet compares the errors with those of Redis: only the reasons of values differ.
func TestSet(t *testing.T) {
	c := mustParse(t, nil, "--upstream", "rediss://ann:hunter2@a:1", "--max-hold", "10s", "--limit-hold", "a*=1s")
	for _, row := range []struct{ pairs, problem string }{
		{"max-clients 5", ""},
		{"MAX-Clients 5 log-level debug max-hold 0", ""},
		{"max-bulk 2mb on-disconnect expire", ""},
		{"nosuch 1", "Unknown option or number of arguments for CONFIG SET - 'nosuch'"},
		{"max-clients 5 nosuch 1", "Unknown option or number of arguments for CONFIG SET - 'nosuch'"},
		{"threads 3", "CONFIG SET failed (possibly related to argument 'threads') - can't set immutable config"},
		{"upstream-password x", "CONFIG SET failed (possibly related to argument 'upstream-password') - can't set immutable config"},
		{"max-args 2000 max-args 2000", "CONFIG SET failed (possibly related to argument 'max-args') - duplicate parameter"},
		{"max-clients x", "CONFIG SET failed (possibly related to argument 'max-clients') - argument is not a whole number"},
		{"max-clients 5 max-hold 1", "CONFIG SET failed (possibly related to argument 'max-hold') - " +
			"argument has no unit: write 1s for seconds, or ms, m, h"},
		{"log-level loud", "CONFIG SET failed (possibly related to argument 'log-level') - " +
			"argument is not one of debug, info, warn, error"},
		{"max-args 2000 max-clients 0", "CONFIG SET failed (possibly related to argument 'max-clients') - " +
			"--max-clients 0 is too small: give 1 or more"},
	} {
		got, err := c.Set(strings.Fields(row.pairs))
		switch {
		case row.problem == "" && err != nil, row.problem != "" && (err == nil || err.Error() != row.problem):
			t.Errorf("%s: got %v, want %q", row.pairs, err, row.problem)
		case row.problem == "" && len(changesOf(c, got)) != len(strings.Fields(row.pairs))/2:
			t.Errorf("%s: changed %v", row.pairs, changesOf(c, got))
		}
	}
	if changed := changesOf(c, mustParse(t, nil, "--upstream", "rediss://ann:hunter2@a:1", "--max-hold", "10s", "--limit-hold", "a*=1s")); len(changed) > 0 {
		t.Errorf("Set has changed its receiver: %v", changed)
	}
}

func changesOf(before, after Config) []Change {
	_, changes := before.Adopt(after)
	return changes
}

// TestSettings: every setting is there once, and no password.
func TestSettings(t *testing.T) {
	c := mustParse(t, nil, "--upstream", "rediss://ann:hunter2@a:1")
	all, names := c.Settings(), make(map[string]string)
	for pair := range slices.Chunk(all, 2) {
		if _, twice := names[pair[0]]; twice || strings.Contains(pair[1], "hunter2") {
			t.Errorf("%s is twice, or shows a password", pair)
		}
		names[pair[0]] = pair[1]
	}
	if names["upstream"] != "a:1" || names["upstream-password"] != "(hidden)" || names["max-clients"] != "10000" {
		t.Errorf("got %v", names)
	}
}
