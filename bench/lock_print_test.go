package main

import (
	"strings"
	"testing"
	"time"
)

func lockRounds(rates ...float64) (rounds []measurement) {
	for _, r := range rates {
		rounds = append(rounds, measurement{rate: r, p50: time.Millisecond, p99: 2 * time.Millisecond, redis: 26 * time.Microsecond, load: 9 * time.Microsecond})
	}
	return rounds
}

func TestPrintPairs(t *testing.T) {
	rows := []*lockRow{
		{result: result{target: "scripts", clients: 1, rounds: lockRounds(7, 7, 7)}},
		{result: result{target: "scripts", clients: 50, rounds: lockRounds(1000, 2000, 1500)}},
		{result: result{target: "leash", clients: 50, rounds: lockRounds(700, 1200, 300)}},
		{result: result{target: "redisson", clients: 50, note: "not installed"}},
	}
	var out strings.Builder
	printPairs(&out, "redis", rows)
	want := `
| acquire + release, redis | connections |       pairs/s |   min..max | of scripts | p50 ms | p99 ms | leash CPU µs | redis CPU µs | client CPU µs |
|--------------------------|------------:|--------------:|-----------:|-----------:|-------:|-------:|-------------:|-------------:|--------------:|
| scripts                  |           1 |             7 |       7..7 |       1.00 |   1.00 |   2.00 |              |        26.00 |          9.00 |
| scripts                  |          50 |          1500 | 1000..2000 |       1.00 |   1.00 |   2.00 |              |        26.00 |          9.00 |
| leash                    |          50 |           700 |  300..1200 |       0.60 |   1.00 |   2.00 |              |        26.00 |          9.00 |
| redisson                 |          50 | not installed |            |            |        |        |              |              |               |
`
	if got := out.String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestPrintRaces(t *testing.T) {
	rounds := lockRounds(500, 700, 600)
	for i := range rounds {
		rounds[i].calls = map[string]float64{"evalsha": 1, "eval": 0.5, "publish": 1, "ssubscribe": 0.25}
		rounds[i].p50 += time.Duration(i) * time.Millisecond
	}
	var out strings.Builder
	printRaces(&out, "cluster", []*lockRow{{result: result{target: "hand-over", clients: 10, rounds: rounds}}})
	want := `
| hand-over, cluster | contenders | grants/s | p50 ms |   min..max | p99 ms |   min..max | scripts | PUBLISH | SPUBLISH | SUBSCRIBE | leash CPU µs | redis CPU µs |
|--------------------|-----------:|---------:|-------:|-----------:|-------:|-----------:|--------:|--------:|---------:|----------:|-------------:|-------------:|
| hand-over          |         10 |      600 |   2.00 | 1.00..3.00 |   2.00 | 2.00..2.00 |    1.50 |    1.00 |     0.00 |      0.25 |              |        26.00 |
`
	if got := out.String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
