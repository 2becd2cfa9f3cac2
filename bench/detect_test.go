package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"leash/bench/detection"
)

// TestMain also runs the test binary as what "bench detection" and "bench neighbour" start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{inNamespace, detection.HolderCommand, loudCommand}, os.Args[1]) {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestRunDetection measures each failure once, with short time-outs, or returns ErrNoNamespaces.
func TestRunDetection(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	args := strings.Fields("detection --rounds 1 --watchdog-timeout 6s --peer-timeout 4s --max-hold 1s --node-timeout 2s")
	if err := run(t.Context(), args, &out); err != nil {
		if errors.Is(err, detection.ErrNoNamespaces) && !mayMakeNamespaces(t) {
			return // the user gets this error
		}
		t.Fatal(err)
	}
	for _, name := range []string{
		"connection closed", "kill -9", "connection reset", "SIGSTOP, MAXHOLD", "host vanished, idle", "host vanished, a reply on its way",
		"cable cut", "Leash killed", "Redis killed, connection closed",
	} {
		if !regexp.MustCompile(`\| ` + name + ` +\|[^|]+\| +\d+\.\d{3} \|`).MatchString(out.String()) {
			t.Errorf("the output lacks %s:\n%s", name, out.String())
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "leash-bench-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// mayMakeNamespaces reports whether this process has CAP_SYS_ADMIN.
func mayMakeNamespaces(t *testing.T) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nCapEff:\t")
	word, _, _ := strings.Cut(rest, "\n")
	capabilities, err := strconv.ParseUint(word, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	const sysAdmin = 21
	return capabilities>>sysAdmin&1 == 1
}

func TestDetectionOptionsRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--rounds 0":             "--rounds 0: give 1 to 100",
		"--peer-timeout 1ms":     "--peer-timeout 1ms: give 1s to 10m",
		"--watchdog-timeout 11m": "--watchdog-timeout 11m0s: give 1s to 10m",
		"--only earthquake":      `--only "earthquake": give the first words`,
		"redisson":               `unexpected argument "redisson"`,
	} {
		var out strings.Builder
		if _, err := detection.ParseOptions(strings.Fields(args), &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}
