package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// printPairs prints the medians of the rows as a table. Each row is compared with the scripts of
// the same number of connections.
func printPairs(w io.Writer, environment string, rows []*lockRow) {
	if len(rows) == 0 {
		return
	}
	table := [][]string{{
		"acquire + release, " + environment, "connections", "pairs/s", "min..max", "of scripts", "p50 ms", "p99 ms",
		"leash CPU µs", "redis CPU µs", "client CPU µs",
	}}
	for _, r := range rows {
		line := []string{r.target, fmt.Sprint(r.clients)}
		if len(r.rounds) == 0 {
			table = append(table, append(line, r.note, "", "", "", "", "", "", ""))
			continue
		}
		table = append(table, append(line,
			fmt.Sprintf("%.0f", median(&r.result, rate)), span(r, rate, "%.0f"), share(r, scriptsOf(rows, r.clients)),
			milliseconds(median(&r.result, func(m measurement) time.Duration { return m.p50 })),
			milliseconds(median(&r.result, func(m measurement) time.Duration { return m.p99 })),
			microseconds(median(&r.result, func(m measurement) time.Duration { return m.proxy })),
			microseconds(median(&r.result, func(m measurement) time.Duration { return m.redis })),
			microseconds(median(&r.result, func(m measurement) time.Duration { return m.load })),
		))
	}
	fmt.Fprintln(w)
	printCells(w, table)
}

// printRaces prints the medians of the races.
func printRaces(w io.Writer, environment string, rows []*lockRow) {
	if len(rows) == 0 {
		return
	}
	table := [][]string{{
		"hand-over, " + environment, "contenders", "grants/s", "p50 ms", "min..max", "p99 ms", "min..max",
		"scripts", "PUBLISH", "SPUBLISH", "SUBSCRIBE", "leash CPU µs", "redis CPU µs",
	}}
	for _, r := range rows {
		p50 := func(m measurement) float64 { return m.p50.Seconds() * 1e3 }
		p99 := func(m measurement) float64 { return m.p99.Seconds() * 1e3 }
		calls := func(names ...string) string {
			return fmt.Sprintf("%.2f", median(&r.result, func(m measurement) (sum float64) {
				for _, name := range names {
					sum += m.calls[name]
				}
				return sum
			}))
		}
		table = append(table, []string{
			r.target, fmt.Sprint(r.clients), fmt.Sprintf("%.0f", median(&r.result, rate)),
			fmt.Sprintf("%.2f", median(&r.result, p50)), span(r, p50, "%.2f"),
			fmt.Sprintf("%.2f", median(&r.result, p99)), span(r, p99, "%.2f"),
			calls("eval", "evalsha"), calls("publish"), calls("spublish"), calls("subscribe", "ssubscribe"),
			microseconds(median(&r.result, func(m measurement) time.Duration { return m.proxy })),
			microseconds(median(&r.result, func(m measurement) time.Duration { return m.redis })),
		})
	}
	fmt.Fprintln(w)
	printCells(w, table)
}

func rate(m measurement) float64 { return m.rate }

// span is the least and the largest value of the rounds.
func span(r *lockRow, of func(measurement) float64, format string) string {
	var values []float64
	for _, m := range r.rounds {
		values = append(values, of(m))
	}
	return fmt.Sprintf(format+".."+format, slices.Min(values), slices.Max(values))
}

// scriptsOf is the row of the scripts over n connections, nil when there is none.
func scriptsOf(rows []*lockRow, n int) *lockRow {
	for _, r := range rows {
		if r.target == byScripts && r.clients == n {
			return r
		}
	}
	return nil
}

// share is the median of the ratio of two rows, round by round. A disturbance that affects both
// rows of a round does not change the ratio.
func share(r, of *lockRow) string {
	if of == nil {
		return ""
	}
	var ratios result
	for i, m := range r.rounds {
		ratios.rounds = append(ratios.rounds, measurement{rate: m.rate / of.rounds[i].rate})
	}
	return fmt.Sprintf("%.2f", median(&ratios, rate))
}
