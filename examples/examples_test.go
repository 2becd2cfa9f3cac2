// Package examples has no code: each example is a program in a directory of its own. Its test runs
// them all.
package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// TestExamples: each example prints what its README says.
func TestExamples(t *testing.T) {
	dir := t.TempDir()
	binary, err := leashtest.Build(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := leashtest.Start(t.Context(), binary, t.TempDir(), "--upstream", redistest.Start(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	for _, example := range []struct {
		command []string
		prints  string
	}{
		{[]string{"go", "run", "./oversell", "--leash", l.Addr}, `^without a lock: 5 pieces, \d+ sold: \d customers paid for nothing
with SET NX PX: 5 pieces, \d+ sold: \d customers? paid for nothing
with Leash:     5 pieces, 5 sold: as it should be
$`},
		{[]string{"cron/nightly.sh"}, `^((leash: nightly-report is taken\n){2}ran on host .\n|leash: .*\nran on host .\nleash: .*\n|ran on host .\n(leash: nightly-report is taken\n){2})$`},
		{[]string{"workers/workers.sh"}, `^([12] at work\n){6}$`},
		{[]string{"leader/leader.sh"}, `^the first leader stops\nhost . leads\nhost . leads\n$`},
	} {
		name := filepath.Base(example.command[0])
		if len(example.command) > 2 {
			name = "oversell"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), example.command[0], example.command[1:]...)
			cmd.Env = append(os.Environ(), "LEASH_SERVER="+l.Addr,
				"PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil || !regexp.MustCompile(example.prints).Match(out) {
				t.Errorf("got %v, %q", err, out)
			}
		})
	}
}
