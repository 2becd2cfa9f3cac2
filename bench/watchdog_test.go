package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
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

func TestLastHeap(t *testing.T) {
	const trace = "gc 1 @0.004s 6%: 0.02+0.75+0.03 ms clock, 0.09+0.1/0.3/0+0.1 ms cpu, 3->4->2 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 4 P\n" +
		"level=INFO msg=\"gc 9 is no line of these\"\n" +
		"gc 2 @0.1s 6%: 0.02+0.75+0.03 ms clock, 0.09+0.1/0.3/0+0.1 ms cpu, 300->400->217 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 4 P\n"
	if got := lastHeap(trace); got != 217 {
		t.Errorf("got %d MB, want 217", got)
	}
	if got := lastHeap(""); got != 0 {
		t.Errorf("got %d MB of no trace, want 0", got)
	}
}

// TestPrintWatch: acquires beside holds are compared with the mean of those without holds, before
// and after.
func TestPrintWatch(t *testing.T) {
	var out strings.Builder
	printWatch(&out, []*watchRow{
		{p99: time.Millisecond, direct: time.Millisecond},
		{holds: 7, p99: 3 * time.Millisecond, direct: time.Millisecond, taking: ttlReport{least: 5 * time.Second, late: 11}, seen: ttlReport{least: 6 * time.Second, late: 2}, lost: 1},
		{after: true, p99: 2 * time.Millisecond, direct: 3 * time.Millisecond},
	})
	if got, want := strings.Join(strings.Fields(strings.Split(out.String(), "\n")[3]), ""), "|7|5.0|11|2|1|0.0%||||"+"|0.00|3.00|2.0|1.00|0.5|0|"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHistogramMerge(t *testing.T) {
	var a, b histogram
	a.add(time.Millisecond)
	b.add(time.Second)
	b.add(time.Second)
	a.merge(&b)
	if got := a.quantile(0.9).Seconds(); a.total != 3 || math.Abs(got-1) > 0.02 {
		t.Errorf("got %v s as the quantile of %d, want 1 of 3", got, a.total)
	}
}
