package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A value is one field of a Config as text; it implements pflag.Value. The errors of set continue a
// sentence that begins with the text: `is not a whole number`.
type value struct {
	kind   string // its name in --help
	set    func(string) error
	format func() string
	grows  bool // a second value is appended
	hidden bool // its text must not be shown
	// numeric says that a file may have the value as a number, without quotes.
	numeric bool
}

// String is the text of the value, or "(hidden)".
func (v value) String() string {
	if v.format == nil { // pflag calls it on the zero value
		return ""
	}
	if v.hidden {
		return Secret(v.format()).String()
	}
	return v.format()
}

func (v value) Set(s string) error { return v.set(s) }
func (v value) Type() string       { return v.kind }

// kindBool is the kind that needs no argument.
const kindBool = "bool"

// bind makes a value for the field p.
func bind[T any](kind string, p *T, parse func(string) (T, error), format func(T) string) value {
	return value{
		kind: kind,
		set: func(s string) error {
			v, err := parse(s)
			if err == nil {
				*p = v
			}
			return err
		},
		format: func() string { return format(*p) },
	}
}

// number marks a value as numeric.
func number(v value) value {
	v.numeric = true
	return v
}

func text(kind string, p *string) value {
	keep := func(s string) (string, error) { return s, nil }
	return bind(kind, p, keep, func(s string) string { return s })
}

// words is a list of words with spaces between them.
func words(kind string, p *[]string) value {
	parse := func(s string) ([]string, error) { return strings.Fields(s), nil }
	return bind(kind, p, parse, func(list []string) string { return strings.Join(list, " ") })
}

func secret(kind string, p *Secret) value {
	keep := func(s string) (Secret, error) { return Secret(s), nil }
	v := bind(kind, p, keep, func(s Secret) string { return string(s) })
	v.hidden = true
	return v
}

func boolean(p *bool) value {
	parse := func(s string) (bool, error) {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return false, errors.New("is neither true nor false")
		}
		return b, nil
	}
	return bind(kindBool, p, parse, strconv.FormatBool)
}

func choice(p *string, words ...string) value {
	parse := func(s string) (string, error) { return s, oneOf(s, words) }
	return bind(strings.Join(words, "|"), p, parse, func(s string) string { return s })
}

func oneOf(s string, words []string) error {
	if slices.Contains(words, s) {
		return nil
	}
	return fmt.Errorf("is not one of %s", strings.Join(words, ", "))
}

func count(kind string, p *int) value {
	parse := func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if errors.Is(err, strconv.ErrRange) {
			return 0, errors.New("is too large a number")
		}
		if err != nil {
			return 0, errors.New("is not a whole number")
		}
		return n, nil
	}
	return number(bind(kind, p, parse, strconv.Itoa))
}

// list is a list separated by commas. The first value replaces the default, and later values are
// appended.
func list(kind string, p *[]string) value {
	given := false
	parse := func(s string) ([]string, error) {
		var all []string
		if given {
			all = slices.Clone(*p)
		}
		for part := range strings.SplitSeq(s, ",") {
			part = strings.TrimSpace(part)
			if part == "" {
				return nil, errors.New("has an empty entry")
			}
			all = append(all, part)
		}
		given = true
		return all, nil
	}
	v := bind(kind, p, parse, func(l []string) string { return strings.Join(l, ",") })
	v.grows = true
	return v
}

func duration(kind string, p *time.Duration) value {
	return number(bind(kind, p, parseDuration, formatDuration))
}

// Auto is a duration that Leash determines itself. Forever is a duration without an end, and Never
// is one that nothing reaches.
const (
	Auto    = time.Duration(-1)
	Forever = time.Duration(-1)
	Never   = time.Duration(-1)
)

// durationOr is a duration, or a word that stands for another value.
func durationOr(word string, meaning time.Duration, p *time.Duration) value {
	parse := func(s string) (time.Duration, error) {
		if s == word {
			return meaning, nil
		}
		d, err := parseDuration(s)
		if err == nil && d < 0 {
			err = errors.New("is negative")
		}
		return d, err
	}
	format := func(d time.Duration) string {
		if d == meaning {
			return word
		}
		return formatDuration(d)
	}
	return number(bind(word+"|duration", p, parse, format))
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("has no unit: write %ss for seconds, or ms, m, h", s)
	}
	return 0, errors.New("is not a duration such as 500ms, 30s, 10m or 24h")
}

// formatDuration is d.String without the zeros: 24h for 24h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	if s == "0s" {
		return "0"
	}
	return s
}

// Bytes, in powers of two.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// units are those of redis.conf, where 1k is 1000 and 1kb is 1024, and the IEC's. In lower case.
var units = map[string]int64{
	"": 1, "b": 1,
	"k": 1e3, "kb": kib, "kib": kib,
	"m": 1e6, "mb": mib, "mib": mib,
	"g": 1e9, "gb": gib, "gib": gib,
}

func size(kind string, p *int64) value {
	return number(bind(kind, p, parseSize, formatSize))
}

func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "bBgGiIkKmM")
	unit, known := units[strings.ToLower(s[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && known && n > math.MaxInt64/uint64(unit):
		return 0, errors.New("is too large a size")
	case err != nil, !known:
		return 0, errors.New("is not a size such as 1048576, 64kb, 16mb, 1gb or 512MiB")
	}
	return int64(n) * unit, nil
}

// formatSize writes n in the largest unit that divides it.
func formatSize(n int64) string {
	switch {
	case n == 0:
		return "0"
	case n%gib == 0:
		return strconv.FormatInt(n/gib, 10) + "GiB"
	case n%mib == 0:
		return strconv.FormatInt(n/mib, 10) + "MiB"
	case n%kib == 0:
		return strconv.FormatInt(n/kib, 10) + "KiB"
	}
	return strconv.FormatInt(n, 10)
}
