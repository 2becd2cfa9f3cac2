package docscheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository, as seen from this package.
const root = "../.."

// read returns a file of the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files lists the files of the repository that end in one of the suffixes, by their paths in it.
func files(t *testing.T, suffixes ...string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "node_modules", "target", ".venv", "testdata"}, d.Name()):
			return filepath.SkipDir
		case !d.IsDir() && slices.Contains(suffixes, filepath.Ext(path)):
			rel, err := filepath.Rel(root, path)
			paths = append(paths, filepath.ToSlash(rel))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

var (
	ruleHeading = regexp.MustCompile(`(?m)^### R([0-9]+): \S`)
	ruleCited   = regexp.MustCompile(`\b(?:Test)?R([0-9]{1,2})(?:\b|[A-Z])`)
)

// TestCitedRulesAreInDesign: docs/design.md has each rule that a comment or a test cites.
func TestCitedRulesAreInDesign(t *testing.T) {
	known := make(map[string]bool)
	for _, m := range ruleHeading.FindAllStringSubmatch(read(t, "docs/design.md"), -1) {
		if known[m[1]] {
			t.Errorf("docs/design.md has two headings for R%s", m[1])
		}
		known[m[1]] = true
	}
	cited := 0
	for _, path := range files(t, ".go", ".lua") {
		if strings.HasPrefix(path, "internal/docscheck/") {
			continue
		}
		for n, line := range strings.Split(read(t, path), "\n") {
			if !strings.Contains(line, "R") { // quicker than the pattern
				continue
			}
			for _, m := range ruleCited.FindAllStringSubmatch(line, -1) {
				if cited++; !known[m[1]] {
					t.Errorf("%s:%d: R%s is no heading in docs/design.md", path, n+1, m[1])
				}
			}
		}
	}
	if cited < 100 {
		t.Errorf("found only %d citations of rules: is the pattern still right?", cited)
	}
}

var (
	sourceFile = regexp.MustCompile(`\b(?:proxy|lockcmd|renewal|internal|bench)/[\w./-]*\w\.(?:go|lua|js|py|java|php|rs)\b`)
	sourceDir  = regexp.MustCompile("`((?:proxy|lockcmd|renewal|internal|bench)/[\\w/]+)`")
)

// TestFilesNamedInDocsExist: each file or package that a page names exists.
func TestFilesNamedInDocsExist(t *testing.T) {
	named := 0
	for _, page := range files(t, ".md") {
		text := read(t, page)
		paths := sourceFile.FindAllString(text, -1)
		for _, m := range sourceDir.FindAllStringSubmatch(text, -1) {
			paths = append(paths, m[1])
		}
		slices.Sort(paths)
		for _, path := range slices.Compact(paths) {
			named++
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s names %s, which does not exist", page, path)
			}
		}
	}
	if named < 50 {
		t.Errorf("found only %d names of files: is the pattern still right?", named)
	}
}

// step is a line of a picture in docs/design.md: a number, a file, and a function of it.
var step = regexp.MustCompile(`(?m)^ +(?:\d+|[a-f]|[iv]+)  ((?:proxy|lockcmd|renewal)/\S+\.go) +([A-Za-z]+)\b`)

// TestFunctionsNamedInDesignExist: the steps of the pictures name functions that their files have.
func TestFunctionsNamedInDesignExist(t *testing.T) {
	steps := step.FindAllStringSubmatch(read(t, "docs/design.md"), -1)
	if len(steps) < 40 {
		t.Errorf("found only %d steps: is the pattern still right?", len(steps))
	}
	for _, m := range steps {
		declared := regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?` + m[2] + `(?:\[[^\]]*\])?\(`)
		if !declared.MatchString(read(t, m[1])) {
			t.Errorf("docs/design.md names %s in %s, which does not declare it", m[2], m[1])
		}
	}
}

var (
	lineComment = regexp.MustCompile(`(?:^|\s)(?://|--) (.*)$`)
	fileName    = regexp.MustCompile(`(?:^|[ (])((?:[\w-]+/)*[a-z][\w-]*\.(?:go|lua))\b`)
)

// TestFilesNamedInCommentsExist: each file that a comment names exists. The file is beside the
// comment, below it, above it, in the scripts' folder, or named from the root.
func TestFilesNamedInCommentsExist(t *testing.T) {
	named := 0
	for _, path := range files(t, ".go", ".lua") {
		for line := range strings.SplitSeq(read(t, path), "\n") {
			if !strings.Contains(line, ".go") && !strings.Contains(line, ".lua") { // quicker than the patterns
				continue
			}
			comment := lineComment.FindStringSubmatch(line)
			if comment == nil || strings.Contains(comment[1], "://") {
				continue
			}
			for _, m := range fileName.FindAllStringSubmatch(comment[1], -1) {
				if strings.HasPrefix(m[1], "runtime/") {
					continue // a file of Go's own sources
				}
				named++
				dir := filepath.Dir(path)
				there := slices.ContainsFunc([]string{dir, scriptsFolder, filepath.Dir(dir), filepath.Dir(filepath.Dir(dir)), "."}, func(in string) bool {
					_, err := os.Stat(filepath.Join(root, in, m[1]))
					return err == nil
				})
				if !there {
					t.Errorf("%s: a comment names %s, which does not exist", path, m[1])
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("found only %d names of files: is the pattern still right?", named)
	}
}
