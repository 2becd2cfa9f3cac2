package main

import (
	"fmt"
	"io"
)

// printWatch prints a row for each number of holds.
func printWatch(w io.Writer, rows []*watchRow) {
	table := [][]string{{
		"holds", "least TTL s", "late", "lost", "of a core", "leash CPU µs", "redis CPU µs", "heap B", "RSS B", "p50 ms", "p99 ms", "direct p99 ms", "taken in s",
	}}
	for _, r := range rows {
		line := []string{fmt.Sprint(r.holds), "", "", "", fmt.Sprintf("%.1f %%", 100*r.core), "", "", "", ""}
		if r.after {
			line[0] += ", after"
		}
		if r.holds > 0 {
			line[1] = fmt.Sprintf("%.1f", r.seen.least.Seconds())
			line[2], line[3] = fmt.Sprint(r.seen.late), fmt.Sprint(r.lost)
			line[5], line[6] = microseconds(r.leash), microseconds(r.redis)
			line[7], line[8] = each(r.memory.heap, r.holds), each(r.memory.resident, r.holds)
		}
		table = append(table, append(line, milliseconds(r.p50), milliseconds(r.p99), milliseconds(r.direct), fmt.Sprintf("%.0f", r.took.Seconds())))
	}
	printCells(w, table)
}

// each is a share of bytes; empty where megabytes, to which they are known, would say nothing.
func each(bytes int64, n int) string {
	if n < 50000 {
		return ""
	}
	return fmt.Sprint(bytes / int64(n))
}
