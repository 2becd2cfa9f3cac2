package proxy

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"leash/internal/redistest"
)

var update = flag.Bool("update", false, "write the command reference into README.md, and testdata anew")

// Where the reference stands in README.md.
const (
	readme         = "../README.md"
	referenceBegin = "<!-- written by: go test ./proxy -run TestReadmeReference -update -->\n"
	referenceEnd   = "<!-- end of the command reference -->\n"
	referenceWidth = 160
)

// classes are what the reference is divided by, in order, with what a class
// means to a user.
var classes = []struct {
	class class
	means string
}{
	{relayed, "whole, to the node of the first key, which checks the others"},
	{splitUp, "by slot on a cluster, the replies merged; not atomic over several slots"},
	{everyNode, "the replies merged; if one master of the cluster cannot answer, the whole is an error"},
	{anyNode, "of a cluster, as each has the same answer"},
	{pinnedConn, "to a connection to Redis that the client has to itself meanwhile"},
	{subscribed, "one for all clients"},
	{answered, "by Leash itself"},
	{refused, "with the reason"},
}

// eachCommand calls f for every command that can be run: containers cannot.
func (t table) eachCommand(f func(c *command)) {
	for _, c := range t {
		if c.subs == nil || c.class != refused || c.note != "" {
			f(c)
		}
		for _, sub := range c.subs {
			f(sub)
		}
	}
}

// reference is the command reference, made of the table that the code uses.
func reference(t table) string {
	type row struct {
		class class
		note  string
	}
	rows := make(map[row][]string)
	t.eachCommand(func(c *command) {
		name := strings.ToUpper(strings.ReplaceAll(c.name, "|", " "))
		rows[row{c.class, c.note}] = append(rows[row{c.class, c.note}], name)
	})
	var b strings.Builder
	for _, group := range classes {
		fmt.Fprintf(&b, "\n**%s**: %s.\n\n", strings.ToUpper(string(group.class[:1]))+string(group.class[1:]), group.means)
		var notes []string
		for r, names := range rows {
			if slices.Sort(names); r.class == group.class {
				notes = append(notes, r.note)
			}
		}
		slices.SortFunc(notes, func(a, b string) int {
			return cmp.Or(cmp.Compare(min(len(a), 1), min(len(b), 1)), strings.Compare(rows[row{group.class, a}][0], rows[row{group.class, b}][0]))
		})
		for _, note := range notes {
			item := strings.Join(rows[row{group.class, note}], ", ")
			if note != "" {
				item += ": " + note
			}
			b.WriteString(wrapped(item))
		}
	}
	return b.String() + "\n"
}

// wrapped is an item of a list in lines of referenceWidth.
func wrapped(item string) string {
	var b strings.Builder
	b.WriteString("-")
	width := 1
	for word := range strings.FieldsSeq(item) {
		if width+1+len(word) > referenceWidth {
			b.WriteString("\n ")
			width = 1
		}
		b.WriteString(" " + word)
		width += 1 + len(word)
	}
	return b.String() + "\n"
}

// TestReadmeReference keeps README.md as the table is.
func TestReadmeReference(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), referenceBegin)
	written, after, ok2 := strings.Cut(rest, referenceEnd)
	if !ok || !ok2 {
		t.Fatal("README.md has no place for the command reference")
	}
	want := reference(newTable(nil))
	if written == want {
		return
	}
	if !*update {
		t.Fatal("the command reference in README.md is not what the table says: run go test ./proxy -run TestReadmeReference -update")
	}
	if err := os.WriteFile(readme, []byte(before+referenceBegin+want+referenceEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestEveryCommandIsAccountedFor asks the server at hand for its commands: none
// is refused only because nobody has thought of it.
func TestEveryCommandIsAccountedFor(t *testing.T) {
	reply, err := redistest.Start(t).Client().Do(t.Context(), "COMMAND").Slice()
	if err != nil {
		t.Fatal(err)
	}
	commands, err := parseCommandReply(reply)
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range map[string]table{"told": newTable(commands), "built-in": newTable(nil)} {
		seen := 0
		table.eachCommand(func(c *command) {
			seen++
			if !slices.ContainsFunc(classes, func(g struct {
				class class
				means string
			}) bool {
				return g.class == c.class
			}) {
				t.Errorf("%s table: %s has the unknown class %q", name, c.name, c.class)
			}
			if c.class == refused && c.note == "" {
				t.Errorf("%s table: %s is refused without a reason", name, c.name)
			}
		})
		if seen < 300 {
			t.Errorf("%s table: only %d commands", name, seen)
		}
	}
}

// TestUnknownToLeash: a command that the upstream has, and Leash knows nothing
// of, goes nowhere.
func TestUnknownToLeash(t *testing.T) {
	command := func(name string, flags ...any) any {
		return []any{name, int64(-1), append([]any{}, flags...), int64(0), int64(0), int64(0), []any{}, []any{}, []any{}, []any{}}
	}
	commands, err := parseCommandReply([]any{command("mod.admin", "admin"), command("mod.get", "readonly")})
	if err != nil {
		t.Fatal(err)
	}
	c := newTable(commands)["MOD.ADMIN"]
	if got, want := c.refusal(), "ERR 'mod.admin' is refused by leash: "+reasonUnknown; got != want || c.class != refused {
		t.Errorf("%s: %q, want %q", c.class, got, want)
	}
}
