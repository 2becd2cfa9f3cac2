package docscheck

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// TestLinks: the target of each link to a file or to a heading exists.
func TestLinks(t *testing.T) {
	byPath := make(map[string]*page)
	for _, p := range pages(t) {
		byPath[p.path] = p
	}
	there := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}
	for _, p := range byPath {
		for _, problem := range linkProblems(p, byPath, there) {
			t.Error(problem)
		}
	}
}

// TestLinkProblems: links without a target are reported.
func TestLinkProblems(t *testing.T) {
	other := parsePage("docs/other.md", "# Other page\n\n## `LOCK.TTL`, twice\n\n## Twice\n\n## Twice\n")
	for text, want := range map[string]string{
		"[x](other.md)":                            "",
		"[x](other.md#other-page)":                 "",
		"[x](other.md#lockttl-twice)":              "",
		"[x](other.md#twice-1)":                    "",
		"[x](../main.go) [y](https://a.b/c#d)":     "",
		"# Here\n\n[x](#here)":                     "",
		"`[x](none.md)`\n\n```\n[x](none.md)\n```": "",
		"[x](none.md)":                             "docs/page.md:1: none.md is not there",
		"[a\nb](other.md#twice-2)":                 "docs/page.md:1: other.md has no heading #twice-2",
		"| [x](#here) |":                           "docs/page.md:1: docs/page.md has no heading #here",
		"![picture](none.svg)":                     "docs/page.md:1: none.svg is not there",
		"[x](main.go)":                             "docs/page.md:1: main.go is not there",
	} {
		p := parsePage("docs/page.md", text)
		byPath := map[string]*page{p.path: p, other.path: other}
		there := func(path string) bool { return path == "main.go" || byPath[path] != nil }
		if got := strings.Join(linkProblems(p, byPath, there), "\n"); got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", text, got, want)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// linkProblems are the links of a page whose targets do not exist.
func linkProblems(p *page, byPath map[string]*page, there func(path string) bool) (problems []string) {
	anchors := make(map[*page]map[string]bool) // of the pages that links lead to
	for _, paragraph := range p.paragraphs() {
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(paragraph.text, ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, name := p.path, p.path
			if target != "" {
				file, name = path.Join(path.Dir(p.path), target), target
			}
			to := byPath[file]
			if to != nil && anchors[to] == nil {
				anchors[to] = to.anchors()
			}
			switch {
			case !there(file):
				problems = append(problems, fmt.Sprintf("%s:%d: %s is not there", p.path, paragraph.number, name))
			case anchor != "" && to != nil && !anchors[to][anchor]:
				problems = append(problems, fmt.Sprintf("%s:%d: %s has no heading #%s", p.path, paragraph.number, name, anchor))
			}
		}
	}
	return problems
}

// anchors are the names by which a page's headings can be linked to, as GitHub makes them.
func (p *page) anchors() map[string]bool {
	all, times := make(map[string]bool), make(map[string]int)
	for _, paragraph := range p.paragraphs() {
		if paragraph.kind != heading {
			continue
		}
		name := anchorOf(paragraph.text)
		n := times[name]
		if times[name]++; n > 0 {
			name += "-" + strconv.Itoa(n)
		}
		all[name] = true
	}
	return all
}

func anchorOf(title string) string {
	title = linkText.ReplaceAllString(title, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}
