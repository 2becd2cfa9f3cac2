package docscheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"leash/internal/leashtest"
)

var (
	settingName = regexp.MustCompile(`\bLEASH_[A-Z_]*[A-Z]\b`)
	metricName  = regexp.MustCompile(`\bleash_[a-z_]*[a-z]\b`)
	metricRow   = regexp.MustCompile("(?m)^\\| `(leash_[a-z_]+)` \\| ([a-z]+) ")
)

// TestDeployHasRealSettings checks the settings of Leash in deploy/.
func TestDeployHasRealSettings(t *testing.T) {
	help, err := exec.Command(leashtest.Binary(t), "--help-all").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, m := range flagOfHelp.FindAllStringSubmatch(string(help), -1) {
		known["LEASH_"+strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(m[1], "--"), "-", "_"))] = true
	}
	allKnown(t, settingName, known, 10, ".yaml", ".service", ".socket", ".env")
}

// TestDeployHasRealMetrics checks the names of metrics in deploy/. A test of internal/metrics keeps
// docs/metrics.md equal to what Leash serves.
func TestDeployHasRealMetrics(t *testing.T) {
	known := make(map[string]bool)
	for _, m := range metricRow.FindAllStringSubmatch(read(t, "docs/metrics.md"), -1) {
		known[m[1]] = true
		if m[2] == "histogram" {
			known[m[1]+"_bucket"], known[m[1]+"_sum"], known[m[1]+"_count"] = true, true, true
		}
	}
	allKnown(t, metricName, known, 20, ".yaml", ".json")
}

// allKnown checks that all names of the pattern in deploy/ are known, and that there are some.
func allKnown(t *testing.T, pattern *regexp.Regexp, known map[string]bool, atLeast int, suffixes ...string) {
	t.Helper()
	found := 0
	for _, path := range files(t, suffixes...) {
		if !strings.HasPrefix(path, "deploy/") {
			continue
		}
		for _, name := range pattern.FindAllString(read(t, path), -1) {
			found++
			if !known[name] {
				t.Errorf("%s: Leash has no %s", path, name)
			}
		}
	}
	if found < atLeast {
		t.Errorf("found only %d names: is the pattern still right?", found)
	}
}

// TestHAProxySettings lets HAProxy check the file for it.
func TestHAProxySettings(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "haproxy", "-c", "-f", "haproxy.cfg")
	cmd.Dir = "../../deploy/haproxy"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("haproxy -c: %v\n%s", err, out)
	}
}

// TestSystemdUnits lets systemd check its units, with this program in place of the binary, which is
// not installed.
func TestSystemdUnits(t *testing.T) {
	dir, program := t.TempDir(), os.Args[0]
	for _, name := range []string{"leash.service", "leash.socket"} {
		unit := strings.ReplaceAll(read(t, "deploy/systemd/"+name), "/usr/local/bin/leash", program)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(unit), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", "verify", filepath.Join(dir, "leash.service"), filepath.Join(dir, "leash.socket"))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestAlertRules runs the tests of the alert rules.
func TestAlertRules(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "leash.rules.yaml"},
		{"test", "rules", "leash.rules_test.yaml"},
	} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = "../../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
