package config

import (
	"fmt"
	"strings"
	"testing"
)

// helpWidth is how many columns --help may take.
const helpWidth = 100

// TestHelp: --help shows ten flags, --help-all every flag, each on two lines that fit a screen.
func TestHelp(t *testing.T) {
	c := Default()
	first, total := 0, 0
	for _, g := range groups(&c) {
		for _, o := range g.options {
			total++
			if o.first {
				first++
			}
			if got := strings.Contains(helpText(false), "\n  --"+o.name+" "); got != o.first {
				t.Errorf("--help shows --%s: %v, want %v", o.name, got, o.first)
			}
			all := helpText(true)
			if !strings.Contains(all, "\n  --"+o.name+" ") || !strings.Contains(all, o.summary) {
				t.Errorf("--help-all lacks --%s", o.name)
			}
			if o.limits != "" && !strings.Contains(all, strings.ReplaceAll(o.limits, "`", "")) {
				t.Errorf("--help-all lacks the limits of --%s", o.name)
			}
			if o.defaultText() == "" {
				t.Errorf("--%s does not say what the default is", o.name)
			}
			if !strings.HasSuffix(o.summary, ".") || strings.Contains(o.summary, "`") {
				t.Errorf("the summary of --%s is not a plain sentence: %q", o.name, o.summary)
			}
		}
	}
	if first != 10 {
		t.Errorf("--help shows %d flags, want 10", first)
	}
	for _, help := range []string{helpText(false), helpText(true)} {
		for line := range strings.Lines(help) {
			if len(line) > helpWidth+1 || strings.HasSuffix(line, " \n") {
				t.Errorf("too long or ends in a space: %q", line)
			}
		}
	}
	for text, want := range map[string]string{
		helpText(false): fmt.Sprintf("These 10 flags of %d come first. leash --help-all shows all.\n\n", total) +
			"Clients:\n  --listen address (default 127.0.0.1:6380)\n      Where clients connect",
		helpText(true): "  --peer-timeout duration (default 11s; 4s to 10m)\n      How long",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("help lacks %q:\n%s", want, text)
		}
	}
}
