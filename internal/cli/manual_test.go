package cli

import (
	"bytes"
	"flag"
	"io"
	"os"
	"testing"
	"time"

	"github.com/spf13/cobra/doc"
)

var update = flag.Bool("update", false, "write deploy/man anew")

// TestManualPages checks that the manual pages in deploy/man agree with the commands.
func TestManualPages(t *testing.T) {
	t.Setenv(ServerVariable, "")
	date := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)
	root := newRoot(io.Discard)
	root.DisableAutoGenTag = true
	for _, c := range root.Commands() {
		var page bytes.Buffer
		c.DisableAutoGenTag = true
		if err := doc.GenMan(c, &doc.GenManHeader{Date: &date, Source: "Leash"}, &page); err != nil {
			t.Fatal(err)
		}
		path := "../../deploy/man/leash-" + c.Name() + ".1"
		written, err := os.ReadFile(path)
		switch {
		case bytes.Equal(written, page.Bytes()):
		case *update:
			if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s is not up to date: run go test ./internal/cli -run TestManualPages -update (%v)", path, err)
		}
	}
}
