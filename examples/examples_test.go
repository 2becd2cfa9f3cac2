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
	l := startLeash(t)
	for name, example := range map[string]struct {
		command []string
		prints  string
	}{
		"oversell": {[]string{"go", "run", "./oversell"}, shopPrints},
		"cron": {[]string{"cron/nightly.sh"},
			`((leash: nightly-report is taken\n){2}ran on host .\n|leash: .*\nran on host .\nleash: .*\n|ran on host .\n(leash: nightly-report is taken\n){2})`},
		"workers": {[]string{"workers/workers.sh"}, `([12] at work\n){6}`},
		"leader":  {[]string{"leader/leader.sh"}, `the first leader stops\nhost . leads\nhost . leads\n`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.run(t, example.prints, example.command...)
		})
	}
}

// shopPrints is what the shop that oversells prints.
const shopPrints = `without a lock: 5 pieces, \d+ sold: \d paid for nothing
with SET NX PX: 5 pieces, \d+ sold: \d paid for nothing
with Leash:     5 pieces, 5 sold: as it should be
`

// leash is a Leash for examples.
type leash struct{ addr, bin string }

func startLeash(t *testing.T) leash {
	t.Helper()
	binary, err := leashtest.Build(t.Context(), t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := leashtest.Start(t.Context(), binary, t.TempDir(), "--upstream", redistest.Start(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	return leash{l.Addr, filepath.Dir(binary)}
}

// run runs an example, which must print what the pattern says.
func (l leash) run(t *testing.T, pattern string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "LEASH_SERVER="+l.addr, "PATH="+l.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil || !regexp.MustCompile("^"+pattern+"$").Match(out) {
		t.Errorf("got %v, %q", err, out)
	}
}
