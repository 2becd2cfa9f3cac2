package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

const manual = "../../deploy/man/leash.1"

// TestManualPage checks that the manual page leash(1) agrees with the option table.
func TestManualPage(t *testing.T) {
	want := string(md2man.Render([]byte(manualText())))
	written, err := os.ReadFile(manual)
	switch {
	case string(written) == want:
	case *update:
		if err := os.WriteFile(manual, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("%s is not up to date: run go test ./internal/config -run TestManualPage -update (%v)", manual, err)
	}
}

// manualText is the page in Markdown.
func manualText() string {
	about, _, _ := strings.Cut(helpHead, "\n\n")
	_, rules, _ := strings.Cut(helpTail, "\n\n")
	c := Default()
	var b strings.Builder
	b.WriteString("% \"LEASH\" \"1\" \"Nov 2026\" \"Leash\" \"\"\n")
	b.WriteString("# NAME\nleash - a proxy in front of Redis that adds locks\n")
	b.WriteString("# SYNOPSIS\n**leash** [*flags*]\n\n**leash** **lock**|**elect**|**locks**|**break**|**status**|**health** ...\n")
	b.WriteString("# DESCRIPTION\n" + about + "\n\n" + rules)
	b.WriteString("# OPTIONS\n**--help**\n: Show the flags to start with.\n\n**--help-all**\n: Show all flags, with their limits.\n\n" +
		"**--version**\n: Show the version.\n\n**--check-config**\n: Check all settings and the files that they name, and end.\n")
	for _, g := range groups(&c) {
		fmt.Fprintf(&b, "## %s\n\n", g.title)
		for _, o := range g.options {
			b.WriteString(o.manualEntry())
		}
	}
	b.WriteString("# SIGNALS\n**SIGTERM**, **SIGINT**\n: Stop in order: clients that hold locks get **--drain-timeout** to release them.\n\n" +
		"**SIGHUP**\n: Read the files of certificates, users and passwords again.\n")
	b.WriteString("# SEE ALSO\n**leash-lock**(1), **leash-elect**(1), **leash-locks**(1), **leash-break**(1), **leash-status**(1), " +
		"**leash-health**(1), **redis-cli**(1)\n")
	return b.String()
}

// manualEntry is the entry of one flag.
func (o option) manualEntry() string {
	name := "**--" + o.name + "**"
	if o.value.kind != kindBool {
		name += " *" + o.value.kind + "*"
	}
	text := strings.Join(append([]string{o.summary}, o.details...), " ") + " Default: " + o.defaultText() + "."
	if o.limits != "" {
		text += " Limits: " + o.limits + "."
	}
	return name + "\n: " + strings.ReplaceAll(strings.ReplaceAll(text, "<", "\\<"), "*", "\\*") + "\n\n"
}
