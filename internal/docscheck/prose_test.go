package docscheck

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxLine     = 100 // columns of a line of prose
	maxSentence = 35  // words
)

// TestProse: the pages are easy to read, in a window of usual width and for readers with another
// first language.
func TestProse(t *testing.T) {
	for _, p := range pages(t) {
		for _, problem := range proseProblems(p) {
			t.Error(problem)
		}
	}
}

// TestProseProblems: bad prose is reported.
func TestProseProblems(t *testing.T) {
	long := strings.Repeat("word ", maxSentence+1)
	for text, want := range map[string]string{
		strings.Repeat("x", maxLine+1):                               "p.md:1: 101 columns",
		"Short.\n\n" + strings.Repeat("long ", 10) + "\n" + long:     "columns",
		strings.ReplaceAll(long, "word word", "word\nword") + ".":    "p.md:1: a sentence of 37 words",
		"| a | b |\n|---|---|\n| " + long + ". | x |":                "p.md:3: a sentence of 37 words",
		"Two keys, of which one is taken.":                           `"of which"`,
		"It is free by then.":                                        `"by then"`,
		"Meanwhile others wait.":                                     `"meanwhile"`,
		"It works. Who waits FAIR stands in a queue.":                "begins with \"Who\"",
		"- Whoever has the lock\n  may release it.":                  "begins with \"Whoever\"",
		"What is over is nobody's.":                                  "begins with \"What\"",
		"| x |\n|---|\n| What is not here is not said. |":            "begins with \"What\"",
		"What is a lock?\nA key.\n\nWho holds it? `LOCK.INFO` says.": "",
		"```text\nof which " + strings.Repeat("x", 200) + "\n```":    "",
		"| " + strings.Repeat("x", 200) + " |":                       "",
		"[a link that is long](" + strings.Repeat("x", 200) + ")":    "",
		"## What is promised":                                        "",
	} {
		got := strings.Join(proseProblems(parsePage("p.md", text)), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q:\ngot  %q\nwant %q", text, got, want)
		}
	}
}

// linkOnly matches a line that cannot be wrapped: a link and nothing else.
var linkOnly = regexp.MustCompile(`^\s*(?:[-*>]\s+)?!?\[.*\]\(\S*\)[.,:;]?$`)

// Phrases that make a reader read the sentence twice.
var hardPhrases = regexp.MustCompile(`(?i)\b(of which|of whom|by then|meanwhile|thereof|whereof|of late|from afar)\b`)

// subjectClause matches the beginning of a sentence whose subject is a clause.
var subjectClause = regexp.MustCompile(`^(Who|Whoever|Whatever|Whichever|What)\b`)

// proseProblems are the problems with how a page is written.
func proseProblems(p *page) (problems []string) {
	report := func(number int, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d: ", p.path, number)+fmt.Sprintf(format, args...))
	}
	for _, l := range p.lines {
		columns := utf8.RuneCountInString(l.text)
		if (l.kind == prose || l.kind == heading) && columns > maxLine && !linkOnly.MatchString(l.text) {
			report(l.number, "%d columns, more than %d", columns, maxLine)
		}
	}
	for _, paragraph := range p.paragraphs() {
		for _, s := range sentences(paragraph.text) {
			if n := len(strings.Fields(s)); n > maxSentence {
				report(paragraph.number, "a sentence of %d words, more than %d: %s", n, maxSentence, s)
			}
			if phrase := hardPhrases.FindString(s); phrase != "" {
				report(paragraph.number, "%q: make two sentences of %q", strings.ToLower(phrase), s)
			}
			begin := subjectClause.FindString(s)
			if begin != "" && strings.HasSuffix(s, ".") && paragraph.kind != heading {
				report(paragraph.number, "begins with %q: name the subject in %q", begin, s)
			}
		}
	}
	return problems
}

var sentenceEnd = regexp.MustCompile(`([.!?][)*_"]*)\s+`)

// sentences splits a paragraph. A piece of code counts as one word, and a link as its text.
func sentences(text string) []string {
	text = codeSpan.ReplaceAllString(text, "CODE")
	text = linkText.ReplaceAllString(text, "$1")
	return strings.Split(sentenceEnd.ReplaceAllString(strings.TrimSpace(text), "$1\n"), "\n")
}
