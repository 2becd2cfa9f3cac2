package docscheck

import (
	"regexp"
	"strings"
	"testing"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

var infoField = regexp.MustCompile("(?m)^(leash_[a-z0-9_]+):")

// TestInfoFieldsAreDocumented: docs/operations.md explains each field of INFO leash, and no others.
func TestInfoFieldsAreDocumented(t *testing.T) {
	redis := redistest.Start(t)
	leash, err := leashtest.Start(t.Context(), leashtest.Binary(t), t.TempDir(), "--upstream", redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leash.Kill)
	info := redistest.Connect(t, leash.Addr).Do("INFO", "leash") + "leash_missing_masters:0\nleash_pinned_node1:\n"
	page := read(t, "docs/operations.md")
	fields := make(map[string]bool)
	for _, m := range infoField.FindAllStringSubmatch(info, -1) {
		fields[m[1]] = true
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("docs/operations.md does not have %s", m[1])
		}
	}
	if len(fields) < 30 {
		t.Fatalf("found only %d fields: is the pattern still right?", len(fields))
	}
	for _, m := range regexp.MustCompile("`(leash_[a-z0-9_]+)`").FindAllStringSubmatch(page, -1) {
		if !fields[m[1]] {
			t.Errorf("INFO leash does not have %s", m[1])
		}
	}
}
