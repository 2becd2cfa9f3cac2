package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"
)

// printTable prints the medians as an aligned Markdown table.
func printTable(w io.Writer, results []*result) {
	rows := [][]string{{"target", "pipeline", "requests/s", "±", "p50 ms", "p99 ms", "proxy CPU µs", "redis CPU µs", "load CPU µs"}}
	for _, r := range results {
		rows = append(rows, []string{
			r.target,
			fmt.Sprint(r.pipeline),
			fmt.Sprintf("%.0f", median(r, func(m measurement) float64 { return m.rate })),
			fmt.Sprintf("%.0f %%", 100*spread(r)),
			milliseconds(median(r, func(m measurement) time.Duration { return m.p50 })),
			milliseconds(median(r, func(m measurement) time.Duration { return m.p99 })),
			microseconds(median(r, func(m measurement) time.Duration { return m.proxy })),
			microseconds(median(r, func(m measurement) time.Duration { return m.redis })),
			microseconds(median(r, func(m measurement) time.Duration { return m.load })),
		})
	}
	printCells(w, rows)
}

// printCells prints rows. The first one is the heading.
func printCells(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range rows {
		printRow(w, row, widths)
		if n == 0 {
			printRule(w, widths)
		}
	}
}

// printRow aligns the first cell to the left, the others to the right.
func printRow(w io.Writer, row []string, widths []int) {
	fmt.Fprintf(w, "| %-*s |", widths[0], row[0])
	for i, cell := range row[1:] {
		fmt.Fprintf(w, " %*s |", widths[i+1], cell)
	}
	fmt.Fprintln(w)
}

func printRule(w io.Writer, widths []int) {
	fmt.Fprintf(w, "|-%s-|", strings.Repeat("-", widths[0]))
	for _, width := range widths[1:] {
		fmt.Fprintf(w, "-%s:|", strings.Repeat("-", width))
	}
	fmt.Fprintln(w)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f", d.Seconds()*1e3)
}

// microseconds is empty for 0, which means that nothing was measured.
func microseconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", d.Seconds()*1e6)
}

// printGobenchHead prints the head of the output of Go's benchmarks.
func printGobenchHead(w io.Writer) {
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: leash/bench\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, cpuModel())
}

// printGobench prints one measurement as a line of a Go benchmark, for benchstat.
func printGobench(w io.Writer, r *result, m measurement) {
	fmt.Fprintf(w, "BenchmarkRelay/target=%s/pipeline=%d-%d %d %.1f ns/op %d p50-ns %d p99-ns %.0f req/s %d proxy-cpu-ns/op %d redis-cpu-ns/op\n",
		strings.ReplaceAll(r.target, " ", "_"), r.pipeline, runtime.NumCPU(),
		m.commands, 1e9/m.rate, m.p50.Nanoseconds(), m.p99.Nanoseconds(), m.rate, m.proxy.Nanoseconds(), m.redis.Nanoseconds())
}

// machine says what the figures were measured on, and how.
func machine(args []string) string {
	var b strings.Builder
	b.WriteString("go run ./bench")
	for _, arg := range args {
		fmt.Fprintf(&b, " %s", shellWord(arg))
	}
	fmt.Fprintln(&b)
	fmt.Fprintf(&b, "%s, %d cores, %s %s, %s\n", cpuModel(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	fmt.Fprintf(&b, "%s\n", firstLine("redis-server", "--version"))
	if path, err := findNutcracker(); err == nil {
		fmt.Fprintf(&b, "%s\n", firstLine(path, "--version"))
	}
	if path, err := findHAProxy(); err == nil {
		fmt.Fprintf(&b, "%s\n", firstLine(path, "-v"))
	}
	return b.String()
}

// shellWord quotes an argument for a shell if necessary.
func shellWord(arg string) string {
	if arg != "" && !strings.ContainsAny(arg, " \t\n'\"\\$&|;<>()*?[]#~`!{}") {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// cpuModel is Linux's name of the processor.
func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// firstLine is the first line of a program's output, or the reason why there is none.
func firstLine(name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if line == "" && err != nil {
		return err.Error()
	}
	return line
}
