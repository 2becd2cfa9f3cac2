package config

import "strings"

const helpHead = `Leash is a Redis-protocol proxy that adds distributed locks: LOCK.ACQUIRE gives a lock that is kept
for as long as the connection stays open, every other command goes to Redis.

Usage: leash [flags]

Each flag is also an environment variable: --max-clients is LEASH_MAX_CLIENTS. A flag beats its
variable, a variable beats the default. A variable LEASH_... that is no setting, an empty value, and
a flag given twice with different values are errors. Durations need a unit: 500ms, 30s, 10m, 24h.
Sizes are bytes or have a unit: 64kb, 16mb, 1gb, 512MiB.
`

const helpTail = `
Other:
  --help
      Show this text.
  --version
      Show the version.
`

// helpWidth is where --help breaks its lines, in bytes; its text is ASCII.
const helpWidth = 100

// helpText is what --help shows: each option with effect, limits and default.
func helpText() string {
	c := Default()
	var b strings.Builder
	b.WriteString(helpHead)
	for _, g := range groups(&c) {
		b.WriteString("\n" + g.title + ":\n")
		for _, o := range g.options {
			b.WriteString("  --" + o.name)
			if o.value.kind != kindBool {
				b.WriteString(" " + o.value.kind)
			}
			b.WriteString("\n")
			wrap(&b, "      ", append(strings.Fields(o.help), o.defaultText()))
		}
	}
	b.WriteString(helpTail)
	return b.String()
}

// defaultText is the option's default as --help shows it.
func (o option) defaultText() string {
	if s := o.value.String(); s != "" {
		return "Default: " + s + "."
	}
	return "Default: " + o.unset + "."
}

// wrap writes the words in lines of at most helpWidth, each after the indent.
func wrap(b *strings.Builder, indent string, words []string) {
	width := 0
	for _, word := range words {
		switch {
		case width == 0:
			b.WriteString(indent)
			width = len(indent)
		case width+1+len(word) > helpWidth:
			b.WriteString("\n" + indent)
			width = len(indent)
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	b.WriteByte('\n')
}
