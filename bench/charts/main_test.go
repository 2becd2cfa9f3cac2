package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCharts compares the charts with the tables of the page.
func TestCharts(t *testing.T) {
	const page = "../../" + page
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	charts, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range charts {
		got, err := os.ReadFile(filepath.Join(filepath.Dir(page), c.file))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, c.svg()) {
			t.Errorf("%s is not what its table says: run go run ./bench/charts", c.file)
		}
		if !strings.Contains(string(text), "]("+c.file+")") {
			t.Errorf("the page does not show %s", c.file)
		}
	}
}

func TestParse(t *testing.T) {
	const text = `
<!-- chart: a.svg | lock | per s | size -->

| lock | size | per s |
|------|-----:|------:|
| a&b  |    1 | 2,000 |
| c    |    2 |       |
| leash|    3 |  500  |

| lock | size |
`
	charts, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []bar{{"a&b, size 1", "2,000", 2000}, {"leash, size 3", "500", 500}}
	if len(charts) != 1 || charts[0].file != "a.svg" || charts[0].unit != "per s" || len(charts[0].bars) != 2 ||
		charts[0].bars[0] != want[0] || charts[0].bars[1] != want[1] {
		t.Fatalf("got %+v, want the bars %+v", charts, want)
	}
	svg := string(charts[0].svg())
	for _, part := range []string{"a&amp;b, size 1", `class="other" x="290" y="30" width="380"`, `class="leash" x="290" y="56" width="95"`} {
		if !strings.Contains(svg, part) {
			t.Errorf("no %s in\n%s", part, svg)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const table = "\n\n| lock | per s |\n|---|---|\n| a | soon |\n"
	for text, want := range map[string]string{
		"no chart":                                     "asks for no chart",
		"<!-- chart: a.svg | lock -->" + table:         "give file | label | length",
		"<!-- chart: a.svg | lock | pairs -->" + table: `no column "pairs"`,
		"<!-- chart: a.svg | lock | per s -->" + table: `"soon" is no number`,
		"<!-- chart: a.svg | lock | per s -->\n":       "no table follows",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
