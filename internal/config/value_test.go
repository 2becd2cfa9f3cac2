package config

import (
	"math"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0":                   0,
		"1":                   1,
		"17b":                 17,
		"1k":                  1000,
		"64kb":                64 << 10,
		"64KB":                64 << 10,
		"64KiB":               64 << 10,
		"2m":                  2000000,
		"16mb":                16 << 20,
		"512MiB":              512 << 20,
		"3G":                  3000000000,
		"1gb":                 1 << 30,
		"1GiB":                1 << 30,
		"9223372036854775807": math.MaxInt64,
		"8589934591gb":        8589934591 << 30,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "b", "mb", "-1", "+1", "1.5gb", "1 gb", " 1", "1t", "1tb", "1bk", "1ib", "1gbb", "0x10", "1_000",
		"9223372036854775808", "8589934592gb", "18446744073709551616", "99999999999999999999kb",
	} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	f.Add("512MiB")
	f.Add("9223372036854775807k")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseSize(text)
		if err != nil {
			return
		}
		if n < 0 {
			t.Errorf("%q: got %d", text, n)
		}
		if again, err := parseSize(formatSize(n)); err != nil || again != n {
			t.Errorf("%q: %d is written %q, which reads %d, %v", text, n, formatSize(n), again, err)
		}
	})
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1: "1", 1000: "1000", 1024: "1KiB", 1536: "1536", 512 << 20: "512MiB", 1 << 30: "1GiB", 3 << 29: "1536MiB",
	} {
		if got := formatSize(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                       "0",
		500 * time.Millisecond:  "500ms",
		30 * time.Second:        "30s",
		10 * time.Minute:        "10m",
		90 * time.Second:        "1m30s",
		24 * time.Hour:          "24h",
		90 * time.Minute:        "1h30m",
		time.Hour + time.Second: "1h0m1s",
	} {
		got := formatDuration(d)
		if got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
		if again, err := parseDuration(got); err != nil || again != d {
			t.Errorf("%v: %q reads %v, %v", d, got, again, err)
		}
	}
}
