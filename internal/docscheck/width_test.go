package docscheck

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxCode is how many columns a line of code may have. A tab counts as four.
const maxCode = 120

var (
	narrowFolder = regexp.MustCompile(`^(lockcmd|proxy|renewal)/`)
	longText     = regexp.MustCompile("[\"'`].{50}")
)

// TestCodeIsNarrow checks the width of the code. A line of a test may be wider for a long text.
func TestCodeIsNarrow(t *testing.T) {
	for _, file := range files(t, ".go") {
		if !narrowFolder.MatchString(file) {
			continue
		}
		for i, line := range strings.Split(read(t, file), "\n") {
			columns := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			if columns > maxCode && !(strings.HasSuffix(file, "_test.go") && longText.MatchString(line)) {
				t.Errorf("%s:%d: %d columns, more than %d", file, i+1, columns, maxCode)
			}
		}
	}
}
