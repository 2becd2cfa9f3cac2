package docscheck

import (
	"strings"
	"testing"
)

const maxReadme = 250 // lines

// TestReadmeIsShort: README.md leads to the pages of docs/. It does not repeat them.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n > maxReadme {
		t.Errorf("README.md has %d lines, more than %d", n, maxReadme)
	}
}
