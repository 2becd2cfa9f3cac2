package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// marked are the files that have regions for the README.
var marked = []string{
	"goredis/lock.go", "ioredis/lock.js", "jedis/src/main/java/Locked.java", "lettuce/src/main/java/Locked.java",
	"noderedis/lock.js", "phpredis/lock.php", "redispy/fencing.py", "redispy/lock.py",
}

// notRun are the languages of those blocks of the README that no program here runs.
var notRun = []string{"csharp"}

var (
	regionPattern = regexp.MustCompile(`(?ms)^[ \t]*(?:#|//) README\n(.*?)\n[ \t]*(?:#|//) end of README$`)
	blockPattern  = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
)

// TestReadme compares the README's blocks of code with the regions of the programs that are marked
// for it, so that what it shows has been run.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := make(map[string]bool) // whether one was found in a program
	for _, b := range blockPattern.FindAllStringSubmatch(string(readme), -1) {
		if !slices.Contains(notRun, b[1]) {
			blocks[strings.TrimSpace(b[2])] = false
		}
	}
	for _, file := range marked {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		regions := regionPattern.FindAllStringSubmatch(string(text), -1)
		if len(regions) == 0 {
			t.Errorf("%s has no region for the README", file)
		}
		for _, m := range regions {
			region := strings.TrimSpace(dedent(m[1]))
			if _, there := blocks[region]; !there {
				t.Errorf("the README has not what is marked for it in %s:\n%s", file, region)
			}
			blocks[region] = true
		}
	}
	for block, found := range blocks {
		if !found {
			t.Errorf("no program runs this block of the README:\n%s", block)
		}
	}
}

// dedent takes from all lines what white space they begin with in common.
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
