package docscheck

import (
	"regexp"
	"strings"
	"testing"
)

// A page is one Markdown file, split into parts for the checks.
type page struct {
	path   string
	lines  []line
	blocks []block
}

// A line is one line of a page.
type line struct {
	number int // from 1
	text   string
	kind   kind
}

// kind says what a line is.
type kind int

const (
	prose   kind = iota
	heading      // # Title
	table        // | cell |
	code         // of a block, or its fence
	blank
)

// A block is a fenced block of code.
type block struct {
	number int // of its fence's line
	lang   string
	lines  []string
}

// parsePage splits the text of a page.
func parsePage(path, text string) *page {
	p := &page{path: path}
	var open *block
	for i, s := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(s)
		l := line{number: i + 1, text: s}
		switch fence, isFence := strings.CutPrefix(trimmed, "```"); {
		case isFence && open == nil:
			l.kind = code
			open = &block{number: i + 1, lang: strings.TrimSpace(fence)}
		case isFence:
			l.kind = code
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			l.kind = code
			open.lines = append(open.lines, s)
		case trimmed == "", strings.HasPrefix(trimmed, "<!--"):
			l.kind = blank
		case strings.HasPrefix(s, "#"):
			l.kind = heading
		case strings.HasPrefix(trimmed, "|"):
			l.kind = table
		case strings.HasPrefix(s, "    ") && i > 0 && p.lines[i-1].kind != prose:
			l.kind = code
		}
		p.lines = append(p.lines, l)
	}
	return p
}

// pages are README.md and the pages of docs/.
func pages(t *testing.T) (all []*page) {
	t.Helper()
	for _, path := range files(t, ".md") {
		if path == "README.md" || strings.HasPrefix(path, "docs/") {
			all = append(all, parsePage(path, read(t, path)))
		}
	}
	if len(all) < 5 {
		t.Fatalf("found only %d pages", len(all))
	}
	return all
}

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	linkText = regexp.MustCompile(`!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)`)
)

// spans are the texts between backticks outside blocks of code.
func (p *page) spans() (all []string) {
	for _, paragraph := range p.paragraphs() {
		for _, span := range codeSpan.FindAllString(paragraph.text, -1) {
			all = append(all, strings.Join(strings.Fields(strings.Trim(span, "`")), " "))
		}
	}
	return all
}

// A paragraph is prose that belongs together: lines up to a blank one or the next item of a list, a
// heading, or one cell of a table.
type paragraph struct {
	number int // of its first line
	text   string
	kind   kind
}

var (
	listItem  = regexp.MustCompile(`^\s*(?:[-*]|\d+\.)\s+`)
	tableRule = regexp.MustCompile(`^[\s|:-]+$`)
)

func (p *page) paragraphs() (all []paragraph) {
	last := blank
	for _, l := range p.lines {
		switch {
		case l.kind == table && !tableRule.MatchString(l.text):
			for _, cell := range cells(l.text) {
				all = append(all, paragraph{l.number, cell, table})
			}
		case l.kind == heading:
			all = append(all, paragraph{l.number, strings.TrimSpace(strings.TrimLeft(l.text, "#")), heading})
		case l.kind == prose && (last != prose || listItem.MatchString(l.text)):
			all = append(all, paragraph{l.number, listItem.ReplaceAllString(strings.TrimSpace(l.text), ""), prose})
		case l.kind == prose:
			all[len(all)-1].text += " " + strings.TrimSpace(l.text)
		}
		last = l.kind
	}
	return all
}

// cells are the cells of a table's row. A bar within backticks, or behind a backslash, is text.
func cells(row string) (all []string) {
	row = strings.ReplaceAll(row, `\|`, "\x00")
	row = codeSpan.ReplaceAllStringFunc(row, func(s string) string { return strings.ReplaceAll(s, "|", "\x00") })
	for _, cell := range strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|") {
		all = append(all, strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")))
	}
	return all
}
