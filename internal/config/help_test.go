package config

import (
	"strings"
	"testing"
)

// TestHelp: each option has its effect and its default, in lines that fit a screen.
func TestHelp(t *testing.T) {
	help := helpText()
	for line := range strings.Lines(help) {
		if len(line) > helpWidth+1 || strings.HasSuffix(line, " \n") {
			t.Errorf("too long or ends in a space: %q", line)
		}
	}
	flat := strings.Join(strings.Fields(help), " ")
	c := Default()
	for _, g := range groups(&c) {
		for _, o := range g.options {
			if !strings.Contains(help, "\n  --"+o.name) || o.help == "" {
				t.Errorf("--%s has no entry", o.name)
			}
			if o.value.String() == "" && o.unset == "" {
				t.Errorf("--%s does not say what the default is", o.name)
			}
		}
	}
	for _, want := range []string{
		"--listen address Where clients connect",
		"Default: 127.0.0.1:6380.",
		"Default: none: an embedded Redis serves, if every --listen is on loopback.",
		"--trust-clients Serve clients",
		"--upstream-mode auto|cluster|standalone|sentinel What",
		"Default: 512MiB.",
		"Default: 24h.",
		"--log-level debug|info|warn|error Least level that is logged, to standard error. Default: info.",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("help lacks %q", want)
		}
	}
}
