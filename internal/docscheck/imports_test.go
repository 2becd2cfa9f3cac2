package docscheck

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestImports: each package imports only what the table in docs/contributing.md allows it. Tests
// may import more.
func TestImports(t *testing.T) {
	allowed := allowedImports(read(t, "docs/contributing.md"))
	if len(allowed) < 10 {
		t.Fatalf("docs/contributing.md allows imports to only %d packages", len(allowed))
	}
	imports := make(map[string][]string)
	for _, file := range files(t, ".go") {
		if !strings.HasSuffix(file, "_test.go") {
			pkg := packageOf(file)
			imports[pkg] = append(imports[pkg], importsOf(t, file)...)
		}
	}
	for _, problem := range importProblems(allowed, imports) {
		t.Error(problem)
	}
}

// TestImportProblems: an import that the table does not allow is reported, and so is a package of
// the table that does not exist.
func TestImportProblems(t *testing.T) {
	allowed := allowedImports("# Page\n\n| package | imports |\n|---|---|\n| `a` | `b`, `c/d` |\n" +
		"| `b` | `gone` |\n\n| package | what it is |\n|---|---|\n| `c/d` | `a` |\n")
	imports := map[string][]string{"a": {"b", "c/d"}, "b": {"a"}, "c/d": nil}
	got := strings.Join(importProblems(allowed, imports), "\n")
	want := "b imports a, which docs/contributing.md does not allow\n" +
		"docs/contributing.md names gone, which is no package"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// importProblems compares the imports of all packages with those that are allowed.
func importProblems(allowed, imports map[string][]string) (problems []string) {
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		for _, imported := range slices.Compact(slices.Sorted(slices.Values(imports[pkg]))) {
			if !slices.Contains(allowed[pkg], imported) {
				problems = append(problems,
					fmt.Sprintf("%s imports %s, which docs/contributing.md does not allow", pkg, imported))
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(allowed)) {
		for _, name := range append([]string{pkg}, allowed[pkg]...) {
			if _, there := imports[name]; !there {
				problems = append(problems, fmt.Sprintf("docs/contributing.md names %s, which is no package", name))
			}
		}
	}
	return problems
}

// allowedImports reads the table of imports: the packages that each package may import.
func allowedImports(text string) map[string][]string {
	allowed := make(map[string][]string)
	_, table, _ := strings.Cut(text, "\n| package | imports |\n|---|---|\n")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			break
		}
		var names []string
		for _, span := range codeSpan.FindAllString(cells[2], -1) {
			names = append(names, strings.Trim(span, "`"))
		}
		allowed[strings.Trim(cells[1], " `")] = names
	}
	return allowed
}

// packageOf is the package of a file, by its path in the module. That of main.go is "main.go".
func packageOf(file string) string {
	if folder := path.Dir(file); folder != "." {
		return folder
	}
	return "main.go"
}

// importsOf are the packages of this module that a file imports.
func importsOf(t *testing.T, file string) (imported []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if name, ours := strings.CutPrefix(name, "leash/"); ours {
			imported = append(imported, name)
		}
	}
	return imported
}
