//go:build languages

package examples

import (
	"strings"
	"testing"
)

// TestLanguages: the shop prints the same in every language. It fetches the libraries of the
// languages, so it has a build tag: make examples.
func TestLanguages(t *testing.T) {
	l := startLeash(t)
	l.run(t, shopPrints, "oversell/javascript/run")
	l.run(t, shopPrints, "oversell/java/run")
	var prints string
	for _, place := range []string{"Redis ", "SQL   "} {
		for line := range strings.Lines(shopPrints) {
			prints += place + line
		}
	}
	prints += "Redis a write after the end of its lock: overwrites the sale of another customer\n" +
		"SQL   a write after the end of its lock: refused, token \\d+ is stale\n"
	l.run(t, prints, "oversell/python/run")
}
