package docscheck

import (
	"path"
	"strings"
	"testing"
)

// mostFiles is how many files a package may have without its tests.
const mostFiles = 25

// TestPackagesAreSmall: docs/contributing.md says how many files a package may have.
func TestPackagesAreSmall(t *testing.T) {
	count := make(map[string]int)
	for _, file := range files(t, ".go") {
		if !strings.HasSuffix(file, "_test.go") {
			count[path.Dir(file)]++
		}
	}
	for dir, n := range count {
		if n > mostFiles {
			t.Errorf("%s has %d files, more than %d", dir, n, mostFiles)
		}
	}
}
