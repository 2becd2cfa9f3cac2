package lockcmd

import (
	"strconv"
	"strings"
	"time"
)

// terms are what a hold is taken under, beside its time. The first acquire decides, but for lease:
// a hold is renewed when any of its acquires had no LEASE. They go with it to another carrier, for
// its record has them.
type terms struct {
	manner
	max  time.Duration // for how long it may be held (MAXHOLD); 0 for as long as one likes
	idle time.Duration // for how long its client may be silent (IDLE); 0 for as long as it likes
}

// manner is the terms that are no number.
type manner struct {
	lease   bool // it is not renewed
	stays   bool // it stays when its connection ends (ONCLOSE EXPIRE)
	answers bool // its loss is an answer to its client, whose connection stays open (ONLOSS ERROR)
	fair    bool // it was taken FAIR
}

// options are the letters of a record.
func (t terms) options() string {
	letters := "w"
	if t.lease {
		letters = "l"
	}
	if t.stays {
		letters += "e"
	}
	if t.answers {
		letters += "o"
	}
	if t.fair {
		letters += "f"
	}
	return letters
}

// more is what a record says besides.
func (t terms) more() string {
	var pairs []string
	for _, p := range [...]struct {
		name string
		time time.Duration
	}{{"max", t.max}, {"idle", t.idle}} {
		if p.time > 0 {
			pairs = append(pairs, p.name+"="+strconv.FormatInt(p.time.Milliseconds(), 10))
		}
	}
	if pairs == nil {
		return "-"
	}
	return strings.Join(pairs, ",")
}

// terms are those a record was made with. A Leash of an older or later version may have written it:
// what is not known is let be.
func (r record) terms() terms {
	t := terms{manner: manner{
		lease: !strings.HasPrefix(r.opts, "w"), stays: strings.Contains(r.opts, "e"), answers: strings.Contains(r.opts, "o"),
		fair: strings.Contains(r.opts, "f"),
	}}
	t.max, t.idle = r.time("max"), r.time("idle")
	return t
}

// moves is how often the hold was moved to another carrier, as far as the Leashes that did so count
// that.
func (r record) moves() int64 {
	n, _ := parseInt([]byte(r.value("moves")))
	return n
}

// time is a time that a record says, 0 if it says none.
func (r record) time(name string) time.Duration {
	if ms, ok := parseInt([]byte(r.value(name))); ok && ms > 0 && ms <= maxTTL.Milliseconds() {
		return millis(ms)
	}
	return 0
}

// value is what a record says of name besides, "" if it says nothing.
func (r record) value(name string) string {
	for pair := range strings.SplitSeq(r.more, ",") {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}
