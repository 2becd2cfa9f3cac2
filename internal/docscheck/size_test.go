package docscheck

import (
	"path"
	"regexp"
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

// TestSessionIsSmall: the session is where everything of a client comes together, so it grows by
// itself. What only one package needs of it goes into a type of its own, such as callSession.
func TestSessionIsSmall(t *testing.T) {
	method := regexp.MustCompile(`(?m)^func \(s \*session\)`)
	methods, inFiles := 0, 0
	for _, file := range files(t, ".go") {
		if path.Dir(file) != "proxy" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		if n := len(method.FindAllString(read(t, file), -1)); n > 0 {
			methods, inFiles = methods+n, inFiles+1
		}
	}
	if methods > 60 || inFiles > 12 {
		t.Errorf("it has %d methods in %d files, more than 60 in 12", methods, inFiles)
	}
	if methods == 0 {
		t.Error("it has no methods: is the pattern still right?")
	}
}
