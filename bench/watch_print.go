package main

import (
	"fmt"
	"io"
	"time"
)

// printWatch prints a row for each number of holds.
func printWatch(w io.Writer, rows []*watchRow) {
	table := [][]string{{
		"holds", "least TTL s", "late, taking", "late", "lost", "of a core", "leash CPU µs", "redis CPU µs", "heap B", "RSS B",
		"p50 ms", "p99 ms", "×", "direct p99 ms", "×", "taken in s",
	}}
	alone, directAlone := withoutHolds(rows)
	for _, r := range rows {
		line := []string{fmt.Sprint(r.holds), "", "", "", "", fmt.Sprintf("%.1f %%", 100*r.core), "", "", "", ""}
		times, directTimes := "", ""
		if r.after {
			line[0] += ", after"
		}
		if r.holds > 0 {
			line[1] = fmt.Sprintf("%.1f", min(r.taking.Least, r.seen.Least).Seconds())
			line[2], line[3], line[4] = fmt.Sprint(r.taking.Late), fmt.Sprint(r.seen.Late), fmt.Sprint(r.lost)
			line[6], line[7] = microseconds(r.leash), microseconds(r.redis)
			line[8], line[9] = each(r.memory.Heap, r.holds), each(r.memory.Resident, r.holds)
			times, directTimes = ratio(r.p99, alone), ratio(r.direct, directAlone)
		}
		table = append(table, append(line, milliseconds(r.p50), milliseconds(r.p99), times, milliseconds(r.direct), directTimes, fmt.Sprintf("%.0f", r.took.Seconds())))
	}
	printCells(w, table)
}

// withoutHolds is the mean p99 of acquires, and of scripts sent to Redis itself, in the rows
// without holds. That is the first row and, if it was measured, the last.
func withoutHolds(rows []*watchRow) (p99, direct time.Duration) {
	n := time.Duration(0)
	for _, r := range rows {
		if r.holds == 0 {
			p99, direct, n = p99+r.p99, direct+r.direct, n+1
		}
	}
	return p99 / max(n, 1), direct / max(n, 1)
}

func ratio(d, base time.Duration) string {
	if base == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", d.Seconds()/base.Seconds())
}

// each is the bytes for each hold. It is empty if there are so few holds that megabytes are too
// coarse.
func each(bytes int64, n int) string {
	if n < 50000 {
		return ""
	}
	return fmt.Sprint(bytes / int64(n))
}
