package docscheck

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxAnew is how many packages Go may compile anew for one test program.
const maxAnew = 3

// TestFewPackagesAreCompiledAnew checks that test files of a package's inside and test files of a
// whole Leash are not in one folder. Go adds the former to the package. So it compiles each package
// anew that lies between it and what the latter import. The folder `integration` is for the latter.
func TestFewPackagesAreCompiledAnew(t *testing.T) {
	imports, outside, inside := make(map[string][]string), make(map[string][]string), make(map[string]bool)
	for _, file := range files(t, ".go") {
		pkg := packageOf(file)
		switch {
		case !strings.HasSuffix(file, "_test.go"):
			imports[pkg] = append(imports[pkg], importsOf(t, file)...)
		case outsideClause.MatchString(read(t, file)):
			outside[pkg] = append(outside[pkg], importsOf(t, file)...)
		default:
			inside[pkg] = true
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(outside)) {
		anew := between(imports, outside[pkg], pkg)
		if inside[pkg] && len(anew) > maxAnew {
			t.Errorf("%s: its tests compile %d packages anew: move those outside the package to %s/integration",
				pkg, len(anew), pkg)
		}
	}
}

var outsideClause = regexp.MustCompile(`(?m)^package \w+_test$`)

// between returns the packages that lie between the imported ones and pkg.
func between(imports map[string][]string, imported []string, pkg string) (all []string) {
	leads := make(map[string]bool)
	var visit func(name string) bool
	visit = func(name string) bool {
		if name == pkg {
			return true
		}
		if known, seen := leads[name]; seen {
			return known
		}
		leads[name] = false
		for _, next := range imports[name] {
			leads[name] = visit(next) || leads[name]
		}
		return leads[name]
	}
	for _, name := range imported {
		visit(name)
	}
	for _, name := range slices.Sorted(maps.Keys(leads)) {
		if leads[name] {
			all = append(all, name)
		}
	}
	return all
}

// TestBetween checks which packages lie between two.
func TestBetween(t *testing.T) {
	imports := map[string][]string{"top": {"left", "right", "other"}, "left": {"base"}, "right": {"left", "other"}}
	for imported, want := range map[string]string{"top": "left right top", "right": "left right", "other": "", "base": ""} {
		if got := strings.Join(between(imports, []string{imported}, "base"), " "); got != want {
			t.Errorf("%s: got %q, want %q", imported, got, want)
		}
	}
}
