package config

import (
	"fmt"
	"strings"
)

const helpHead = `Leash is a proxy in front of Redis that adds locks. A client takes one with LOCK.ACQUIRE and keeps
it for as long as its connection stays open. All other commands go to Redis.

Usage: leash [flags]
       leash lock|elect|locks|break|status|health   clients of a Leash: leash lock --help

`

const helpTail = `
Other:
  --help
      Show the flags to start with.
  --help-all
      Show all flags, with their limits.
  --version
      Show the version.
  --check-config
      Check all settings and the files that they name, and end.

Each flag is also an environment variable: --max-clients is LEASH_MAX_CLIENTS. In the file of
--config it is max-clients = 10000. A flag beats its variable, and a variable beats the file.
A duration needs a unit (500ms, 30s, 10m, 24h). A size can have one (64kb, 16mb, 1gb).
`

// helpText is the text of --help: the most important flags, or all flags with their limits. Each
// flag takes two lines.
func helpText(all bool) string {
	c := Default()
	var entries strings.Builder
	shown, total := 0, 0
	for _, g := range groups(&c) {
		title := "\n" + g.title + ":\n"
		for _, o := range g.options {
			total++
			if !o.first && !all {
				continue
			}
			shown++
			entries.WriteString(title + o.helpEntry(all))
			title = ""
		}
	}
	counted := fmt.Sprintf("All %d flags:\n", total)
	if !all {
		counted = fmt.Sprintf("These %d flags of %d come first. leash --help-all shows all.\n", shown, total)
	}
	return helpHead + counted + entries.String() + helpTail
}

// helpEntry is the two lines of an option in --help.
func (o option) helpEntry(limits bool) string {
	name := "--" + o.name
	if o.value.kind != kindBool {
		name += " " + o.value.kind
	}
	limit := ""
	if limits && o.limits != "" {
		limit = "; " + o.limits
	}
	text := fmt.Sprintf("  %s (default %s%s)\n      %s\n", name, o.defaultText(), limit, o.summary)
	return strings.ReplaceAll(text, "`", "")
}

// defaultText describes the option's default.
func (o option) defaultText() string {
	if o.defaultIs != "" {
		return o.defaultIs
	}
	return o.value.String()
}
