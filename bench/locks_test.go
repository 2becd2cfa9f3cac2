package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRunLocks measures briefly what needs no other tools. All processes must end.
func TestRunLocks(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	args := strings.Fields("locks --only scripts,leash,hand-over,hand-over-2 --rounds 1 --round 300ms --warmup 100ms --connections 3 --contenders 4")
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`\| acquire \+ release, redis +\|`,
		`\| acquire \+ release, cluster +\|`,
		`\| scripts +\| +3 \| +\d+ \| +\d+\.\.\d+ \| +1\.00 \|`,
		`\| leash +\| +3 \| +\d+ \| +\d+\.\.\d+ \| +\d\.\d\d \|`,
		`\| hand-over +\| +4 \|`,
		`\| hand-over-2 +\| +2 \|`,
		`go run ./bench locks --only scripts,leash,hand-over,hand-over-2`,
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

func TestLockOptionsRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--connections 1,0":   "--connections 0: give 1 to 10000",
		"--contenders 1":      "--contenders 1: give 2 to",
		"--rounds 0":          "--rounds 0: give 1 to 1000",
		"--round 1ms":         "--round 1ms: give 100ms to 1m",
		"--upstream sentinel": `--upstream "sentinel": give some of redis, cluster`,
		"--only redis":        `--only "redis": give some of scripts`,
		"redisson":            `unexpected argument "redisson"`,
	} {
		var out strings.Builder
		if _, err := parseLockOptions(strings.Fields(args), &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}

func TestAddCalls(t *testing.T) {
	sum := map[string]int{"evalsha": 1}
	addCalls(sum, "$99\r\n# Commandstats\r\ncmdstat_evalsha:calls=12,usec=5\r\ncmdstat_config|get:calls=3,usec=1\r\nother:calls=7\r\n\r\n")
	if len(sum) != 2 || sum["evalsha"] != 13 || sum["config|get"] != 3 {
		t.Errorf("got %v", sum)
	}
}
