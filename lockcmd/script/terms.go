package script

import (
	"strconv"
	"strings"
	"time"

	"leash/proxy/resp"
)

// Terms are the options of a hold besides its TTL. The first acquire decides them, except
// lease: a hold is renewed if any of its acquires had no LEASE. They are in the record and so go
// along to another carrier.
type Terms struct {
	Flags
	MaxHold time.Duration // MAXHOLD; 0 for no limit
	Idle    time.Duration // IDLE; 0 for no limit
}

// Flags are the terms that are no numbers.
type Flags struct {
	Lease       bool // it is not renewed
	StayOnClose bool // it stays when its connection ends (ONCLOSE EXPIRE)
	ErrorOnLoss bool // a loss is an error reply; the connection stays open (ONLOSS ERROR)
	Fair        bool // it was acquired with FAIR
}

// OptionLetters are the letters for the record.
func (t Terms) OptionLetters() string {
	letters := "w"
	if t.Lease {
		letters = "l"
	}
	if t.StayOnClose {
		letters += "e"
	}
	if t.ErrorOnLoss {
		letters += "o"
	}
	if t.Fair {
		letters += "f"
	}
	return letters
}

// Ext is the record's word with name=value pairs, "-" for none.
func (t Terms) Ext() string {
	var pairs []string
	for _, p := range [...]struct {
		name string
		time time.Duration
	}{{"max", t.MaxHold}, {"idle", t.Idle}} {
		if p.time > 0 {
			pairs = append(pairs, p.name+"="+strconv.FormatInt(p.time.Milliseconds(), 10))
		}
	}
	if pairs == nil {
		return "-"
	}
	return strings.Join(pairs, ",")
}

// Terms reads the terms of a record. A Leash of another version may have written it; what is
// unknown is ignored.
func (r Record) Terms() Terms {
	t := Terms{Flags: Flags{
		Lease: !strings.HasPrefix(r.Options, "w"), StayOnClose: strings.Contains(r.Options, "e"), ErrorOnLoss: strings.Contains(r.Options, "o"),
		Fair: strings.Contains(r.Options, "f"),
	}}
	t.MaxHold, t.Idle = r.extTime("max"), r.extTime("idle")
	return t
}

// Moves is how often the hold was moved to another carrier.
func (r Record) Moves() int64 {
	n, _ := resp.ParseInt([]byte(r.ExtValue("moves")))
	return n
}

// extTime is a time among the pairs of a record, 0 if it is missing.
func (r Record) extTime(name string) time.Duration {
	if ms, ok := resp.ParseInt([]byte(r.ExtValue(name))); ok && ms > 0 && ms <= MaxTTL.Milliseconds() {
		return Millis(ms)
	}
	return 0
}

// ExtValue is the value of a name among the pairs of a record, "" if it is missing.
func (r Record) ExtValue(name string) string {
	for pair := range strings.SplitSeq(r.Ext, ",") {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// MaxTTL is a limit that Redis can add to its clock and a time.Duration can hold.
const MaxTTL = 100 * 365 * 24 * time.Hour

// Millis is a duration of n ms, within what a time.Duration can hold.
func Millis(n int64) time.Duration {
	return time.Duration(max(min(n, maxMillis), -maxMillis)) * time.Millisecond
}

// maxMillis keeps a number from Redis within a time.Duration. It is 34 years.
const maxMillis = 1 << 40
