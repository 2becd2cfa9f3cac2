package main

import (
	"strings"
	"testing"
	"time"
)

var printed = []*result{
	{target: "redis", pipeline: 1, rounds: []measurement{
		{commands: 100, rate: 90000, p50: 400 * time.Microsecond, p99: 900 * time.Microsecond, redis: 7 * time.Microsecond, load: 3000},
		{commands: 100, rate: 100000, p50: 500 * time.Microsecond, p99: time.Millisecond, redis: 8 * time.Microsecond, load: 3000},
		{commands: 100, rate: 101000, p50: 600 * time.Microsecond, p99: 2 * time.Millisecond, redis: 9 * time.Microsecond, load: 3000},
	}},
	{target: "leash --threads 2", pipeline: 16, rounds: []measurement{
		{commands: 3200, rate: 1200000.4, p50: 612345, p99: 1234567, proxy: 812, redis: 1005, load: 300},
	}},
}

func TestPrintTable(t *testing.T) {
	var out strings.Builder
	printTable(&out, printed)
	want := `
| target            | pipeline | requests/s |    ± | p50 ms | p99 ms | proxy CPU µs | redis CPU µs | load CPU µs |
|-------------------|---------:|-----------:|-----:|-------:|-------:|-------------:|-------------:|------------:|
| redis             |        1 |     100000 | 10 % |   0.50 |   1.00 |              |         8.00 |        3.00 |
| leash --threads 2 |       16 |    1200000 |  0 % |   0.61 |   1.23 |         0.81 |         1.00 |        0.30 |
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestPrintGobench(t *testing.T) {
	var out strings.Builder
	printGobench(&out, printed[1], printed[1].rounds[0])
	fields := strings.Fields(out.String())
	if !strings.HasPrefix(fields[0], "BenchmarkRelay/target=leash_--threads_2/pipeline=16-") {
		t.Errorf("got the name %q", fields[0])
	}
	got := strings.Join(fields[1:], " ")
	want := "3200 833.3 ns/op 612345 p50-ns 1234567 p99-ns 1200000 req/s 812 proxy-cpu-ns/op 1005 redis-cpu-ns/op"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMedian(t *testing.T) {
	rate := func(m measurement) float64 { return m.rate }
	if got := median(printed[0], rate); got != 100000 {
		t.Errorf("of three: got %v", got)
	}
	two := &result{rounds: printed[0].rounds[:2]}
	if got := median(two, rate); got != 95000 {
		t.Errorf("of two: got %v", got)
	}
}

func TestShellWord(t *testing.T) {
	for arg, want := range map[string]string{
		"--rounds=3": "--rounds=3", "": "''", "--threads 1": "'--threads 1'", "it's": `'it'\''s'`,
	} {
		if got := shellWord(arg); got != want {
			t.Errorf("%q: got %s, want %s", arg, got, want)
		}
	}
}
