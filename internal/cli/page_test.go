package cli

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCommandLinePage: docs/command-line.md names every command and every flag.
func TestCommandLinePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/command-line.md")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(io.Discard)
	commands := append([]*cobra.Command{root}, root.Commands()...)
	for _, c := range commands {
		if c != root && !strings.Contains(string(page), "leash "+c.Name()) {
			t.Errorf("the page does not name leash %s", c.Name())
		}
		flags := c.LocalFlags()
		if c == root {
			flags = c.PersistentFlags()
		}
		flags.VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(string(page), "`--"+f.Name) {
				t.Errorf("the page does not name --%s of leash %s", f.Name, c.Name())
			}
		})
	}
}
