package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// programLanguages are the languages whose blocks in the documents must be part of a program here.
// Blocks in other languages (text, console, …) are not programs.
var programLanguages = []string{"go", "java", "js", "javascript", "php", "py", "python", "rs", "rust", "ts"}

// fetched are directories with code of others.
var fetched = []string{"node_modules", "target", ".venv", "bin"}

// A region is between two comments: "README", or "docs", and "end of" the same word.
var (
	regionPattern = regexp.MustCompile(`(?ms)^[ \t]*(?:#|//) (?:README|docs)\n(.*?)\n[ \t]*(?:#|//) end of (?:README|docs)$`)
	blockPattern  = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
)

// TestDocumentedCode checks that every block of code in README.md and docs is word for word a
// marked region of a program in this directory, and that each region is on a page. So what a page
// shows has been run.
func TestDocumentedCode(t *testing.T) {
	regions := readRegions(t)
	shown := make(map[string]bool)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blockPattern.FindAllStringSubmatch(string(text), -1) {
			block := strings.TrimSpace(b[2])
			switch {
			case !slices.Contains(programLanguages, b[1]):
			case regions[block] == "":
				t.Errorf("no program runs this block of %s:\n%s", page, block)
			default:
				shown[block] = true
			}
		}
	}
	for region, file := range regions {
		if !shown[region] {
			t.Errorf("no page shows this region of %s:\n%s", file, region)
		}
	}
}

// pages are the documents of the project.
func pages(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(docs, "../../README.md")
}

// readRegions returns the marked regions of all programs and the file of each.
func readRegions(t *testing.T) map[string]string {
	t.Helper()
	regions := make(map[string]string)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(fetched, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range regionPattern.FindAllStringSubmatch(string(text), -1) {
			regions[strings.TrimSpace(dedent(m[1]))] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return regions
}

// dedent removes the white space that all lines begin with.
func dedent(text string) string {
	lines := strings.Split(text, "\n")
	indent, first := "", true
	for _, line := range lines {
		white := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		switch {
		case strings.TrimSpace(line) == "":
		case first:
			indent, first = white, false
		default:
			for !strings.HasPrefix(white, indent) {
				indent = indent[:len(indent)-1]
			}
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, indent)
	}
	return strings.Join(lines, "\n")
}
