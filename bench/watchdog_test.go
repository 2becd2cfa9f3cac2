package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"leash/bench/load"
)

// TestRunWatchdog keeps a few holds for a few seconds. All processes must end.
func TestRunWatchdog(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	args := strings.Fields("watchdog --holds 30,300 --connections 7 --ttl 3s --periods 1 --rate 50")
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`\| holds +\| least TTL s \|`,
		`\| 0 +\| +\| +\| +\| +\| +\d+\.\d %`,
		`\| 30 +\| +\d\.\d \| +\d+ \| +\d+ \| +\d+ \| +\d+\.\d %`,
		`\| 300 +\| +\d\.\d \| +\d+ \| +\d+ \| +\d+ \| +\d+\.\d %`,
		`\| 0, after +\| +\| +\| +\| +\| +\d+\.\d %`,
		`go run ./bench watchdog --holds 30,300`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output lacks %s:\n%s", want, out.String())
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "leash-bench-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestWatchOptionsRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--holds 0":         "--holds 0: give 1 to",
		"--holds 20,10":     "--holds [20 10]: give growing numbers",
		"--connections 0":   "--connections 0: give 1 to 5000",
		"--ttl 10ms":        "--ttl 10ms: give 1s to 1h",
		"--rate 1":          "--rate 1: give 10 to",
		"--leash-flags=a=1": "",
		"redis":             `unexpected argument "redis"`,
	} {
		var out strings.Builder
		if _, err := parseWatchOptions(strings.Fields(args), &out); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}

// TestPrintWatch: acquires beside holds are compared with the mean of those without holds, before
// and after.
func TestPrintWatch(t *testing.T) {
	var out strings.Builder
	printWatch(&out, []*watchRow{
		{p99: time.Millisecond, direct: time.Millisecond},
		{holds: 7, p99: 3 * time.Millisecond, direct: time.Millisecond, taking: load.TTLReport{Least: 5 * time.Second, Late: 11}, seen: load.TTLReport{Least: 6 * time.Second, Late: 2}, lost: 1},
		{after: true, p99: 2 * time.Millisecond, direct: 3 * time.Millisecond},
	})
	if got, want := strings.Join(strings.Fields(strings.Split(out.String(), "\n")[3]), ""), "|7|5.0|11|2|1|0.0%||||"+"|0.00|3.00|2.0|1.00|0.5|0|"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
