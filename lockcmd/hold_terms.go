package lockcmd

import (
	"strconv"
	"strings"
	"time"
)

// holdTerms are the options of a hold besides its TTL. The first acquire decides them, except
// lease: a hold is renewed if any of its acquires had no LEASE. They are in the record and so go
// along to another carrier.
type holdTerms struct {
	holdFlags
	maxHold time.Duration // MAXHOLD; 0 for no limit
	idle    time.Duration // IDLE; 0 for no limit
}

// holdFlags are the terms that are no numbers.
type holdFlags struct {
	lease       bool // it is not renewed
	stayOnClose bool // it stays when its connection ends (ONCLOSE EXPIRE)
	errorOnLoss bool // a loss is an error reply; the connection stays open (ONLOSS ERROR)
	fair        bool // it was acquired with FAIR
}

// optionLetters are the letters for the record.
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

// ext is the record's word with name=value pairs, "-" for none.
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

// terms reads the terms of a record. A Leash of another version may have written it; what is
// unknown is ignored.
func (r record) terms() holdTerms {
	t := holdTerms{holdFlags: holdFlags{
		lease: !strings.HasPrefix(r.opts, "w"), stayOnClose: strings.Contains(r.opts, "e"), errorOnLoss: strings.Contains(r.opts, "o"),
		fair: strings.Contains(r.opts, "f"),
	}}
	t.maxHold, t.idle = r.extTime("max"), r.extTime("idle")
	return t
}

// moves is how often the hold was moved to another carrier.
func (r record) moves() int64 {
	n, _ := parseInt([]byte(r.extValue("moves")))
	return n
}

// extTime is a time among the pairs of a record, 0 if it is missing.
func (r record) extTime(name string) time.Duration {
	if ms, ok := parseInt([]byte(r.extValue(name))); ok && ms > 0 && ms <= maxTTL.Milliseconds() {
		return millis(ms)
	}
	return 0
}

// extValue is the value of a name among the pairs of a record, "" if it is missing.
func (r record) extValue(name string) string {
	for pair := range strings.SplitSeq(r.ext, ",") {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}
