package proxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// shrink returns as few of the commands as still fail, in their order. It leaves out ever smaller
// runs of them (delta debugging) and stops after limit.
func shrink(commands [][]string, limit time.Duration, fails func([][]string) bool) [][]string {
	deadline := time.Now().Add(limit)
	for size := (len(commands) + 1) / 2; size > 0; {
		removed := false
		for at := 0; at < len(commands) && time.Now().Before(deadline); {
			without := slices.Concat(commands[:at], commands[min(at+size, len(commands)):])
			if len(without) > 0 && fails(without) {
				commands, removed = without, true
			} else {
				at += size
			}
		}
		if size == 1 && !removed || time.Now().After(deadline) {
			break
		}
		if size = min(size, len(commands)) / 2; size == 0 {
			size = 1
		}
	}
	return commands
}

// asTyped writes a command as one types it at redis-cli.
func asTyped(args []string) string {
	var words []string
	for _, arg := range args {
		switch {
		case len(arg) > 300 && strings.Count(arg, arg[:1]) == len(arg):
			arg = fmt.Sprintf("<%q %d times>", arg[:1], len(arg))
		case arg == "" || strings.ContainsFunc(arg, func(r rune) bool {
			return r <= ' ' || r > '~' || r == '"' || r == '\'' || r == '\\'
		}):
			arg = quoteArg(arg)
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// quoteArg quotes like redis-cli and the inline protocol: bytes, not runes.
func quoteArg(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func TestShrinkFindsTheLeast(t *testing.T) {
	var commands [][]string
	for i := range 1000 {
		commands = append(commands, []string{fmt.Sprint(i)})
	}
	tries := 0
	got := shrink(commands, time.Minute, func(c [][]string) bool {
		tries++
		all := fmt.Sprint(c)
		return strings.Contains(all, "[17]") && strings.Contains(all, "[500]") && strings.Contains(all, "[998]")
	})
	if fmt.Sprint(got) != "[[17] [500] [998]]" || tries > 300 {
		t.Errorf("got %v in %d tries", got, tries)
	}
}
