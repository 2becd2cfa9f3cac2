// Charts draws the tables of docs/performance.md as bars, in SVG files beside the page.
//
//	go run ./bench/charts
//
// A chart is asked for by a comment above its table:
//
//	<!-- chart: locks.svg | acquire + release, redis | pairs/s -->
//
// It names the file, the column with the labels of the bars, and the column with their lengths.
// More columns with labels may follow the length; the chart shows them behind the first one, with
// their names. A row without a length has no bar.
//
// So the figures are only on the page. A test fails when a file differs from its table.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const page = "docs/performance.md"

func main() {
	if err := run(page); err != nil {
		fmt.Fprintln(os.Stderr, "charts:", err)
		os.Exit(1)
	}
}

// run writes the charts of a page into the page's directory.
func run(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	charts, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	for _, c := range charts {
		if err := os.WriteFile(filepath.Join(filepath.Dir(page), c.file), c.svg(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A chart is a table as horizontal bars.
type chart struct {
	file string
	unit string // heading of the column with the lengths
	bars []bar
}

type bar struct {
	label  string
	text   string // the length as the table has it
	length float64
}

var chartPattern = regexp.MustCompile(`(?m)^<!-- chart: (.+?) -->$`)

// parse returns the charts that a page asks for, in its order.
func parse(text string) ([]chart, error) {
	var charts []chart
	for _, at := range chartPattern.FindAllStringSubmatchIndex(text, -1) {
		words := cells(text[at[2]:at[3]])
		if len(words) < 3 {
			return nil, fmt.Errorf("chart %q: give file | label | length", text[at[2]:at[3]])
		}
		c, err := chartOf(words, firstTable(text[at[1]:]))
		if err != nil {
			return nil, fmt.Errorf("chart %s: %w", words[0], err)
		}
		charts = append(charts, c)
	}
	if len(charts) == 0 {
		return nil, errors.New("the page asks for no chart")
	}
	return charts, nil
}

// chartOf makes the chart that words ask for. The first row of table is its heading, the second one
// its rule.
func chartOf(words []string, table [][]string) (chart, error) {
	if len(table) < 3 {
		return chart{}, errors.New("no table follows")
	}
	var columns []int
	for _, name := range words[1:] {
		i := slices.Index(table[0], name)
		if i < 0 {
			return chart{}, fmt.Errorf("the table has no column %q", name)
		}
		columns = append(columns, i)
	}
	c := chart{file: words[0], unit: words[2]}
	for _, row := range table[2:] {
		text := row[columns[1]]
		if text == "" {
			continue
		}
		length, err := strconv.ParseFloat(strings.NewReplacer(",", "", " %", "").Replace(text), 64)
		if err != nil {
			return chart{}, fmt.Errorf("%q is no number", text)
		}
		label := row[columns[0]]
		for i, column := range columns[2:] {
			label += ", " + words[3+i] + " " + row[column]
		}
		c.bars = append(c.bars, bar{label: label, text: text, length: length})
	}
	return c, nil
}

// firstTable returns the rows of the first Markdown table of the text.
func firstTable(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "|") {
			rows = append(rows, cells(strings.Trim(line, "|")))
		} else if rows != nil {
			break
		}
	}
	return rows
}

// cells returns what stands between bars, without the space around it.
func cells(line string) []string {
	parts := strings.Split(line, "|")
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
	}
	return parts
}
