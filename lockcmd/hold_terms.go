package lockcmd

import (
	"strconv"
	"strings"
	"time"
)

// holdTerms are what a hold is taken under, beside its time. The first acquire decides, but for lease:
// a hold is renewed when any of its acquires had no LEASE. They go with it to another carrier, for
// its record has them.
type holdTerms struct {
	holdFlags
	maxHold time.Duration // for how long it may be held (MAXHOLD); 0 for as long as one likes
	idle    time.Duration // for how long its client may be silent (IDLE); 0 for as long as it likes
}

// holdFlags is the terms that are no number.
type holdFlags struct {
	lease       bool // it is not renewed
	stayOnClose bool // it stays when its connection ends (ONCLOSE EXPIRE)
	errorOnLoss bool // its loss is an answer to its client, whose connection stays open (ONLOSS ERROR)
	fair        bool // it was taken FAIR
}

// optionLetters are the letters of a record.
func (t holdTerms) optionLetters() string {
	letters := "w"
	if t.lease {
		letters = "l"
	}
	if t.stayOnClose {
		letters += "e"
	}
	if t.errorOnLoss {
		letters += "o"
	}
	if t.fair {
		letters += "f"
	}
	return letters
}

// ext is what a record says besides.
func (t holdTerms) ext() string {
	var pairs []string
	for _, p := range [...]struct {
		name string
		time time.Duration
	}{{"max", t.maxHold}, {"idle", t.idle}} {
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
func (r record) terms() holdTerms {
	t := holdTerms{holdFlags: holdFlags{
		lease: !strings.HasPrefix(r.opts, "w"), stayOnClose: strings.Contains(r.opts, "e"), errorOnLoss: strings.Contains(r.opts, "o"),
		fair: strings.Contains(r.opts, "f"),
	}}
	t.maxHold, t.idle = r.extTime("max"), r.extTime("idle")
	return t
}

// moves is how often the hold was moved to another carrier, as far as the Leashes that did so count
// that.
func (r record) moves() int64 {
	n, _ := parseInt([]byte(r.extValue("moves")))
	return n
}

// extTime is a time that a record says, 0 if it says none.
func (r record) extTime(name string) time.Duration {
	if ms, ok := parseInt([]byte(r.extValue(name))); ok && ms > 0 && ms <= maxTTL.Milliseconds() {
		return millis(ms)
	}
	return 0
}

// extValue is what a record says of name besides, "" if it says nothing.
func (r record) extValue(name string) string {
	for pair := range strings.SplitSeq(r.ext, ",") {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}
