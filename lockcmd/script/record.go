package script

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"leash/proxy/resp"
)

// A record is what Leash keeps in Redis about a hold. It is one field of a hash:
//
//	plain, FAIR    the field "leash" of the lock's own hash
//	READ, WRITE    the field named as the owner, in the hash {K}:leash
//	permit         the field named as the permit, in the hash {K}:leash
//
// It is one line of words with one space between them. Only the last word may contain spaces:
//
//	L1         the version of this layout; not a number, because Redisson loops up to numbers
//	token      decimal, below 2^53; of a permit, a number that tells one hold of it from another
//	carrier    <uuid of the Leash>:<session id>.<n>; the Leash never uses n again
//	request    decimal: the number of the carrier's last request that acted on the hold (R7)
//	reply      decimal: the reply to that request, which is repeated when the request is
//	since      decimal: Redis's clock at the grant, ms since 1970
//	ttl        decimal: ms to which a renewal raises the key's TTL; of a lease, how long it lasts
//	options    letters: first w (renewed) or l (lease), then
//	           e  ONCLOSE EXPIRE
//	           o  ONLOSS ERROR
//	           f  taken with FAIR
//	ext        "-", or name=value pairs with "," between them:
//	           max=60000               MAXHOLD in ms
//	           idle=5000               IDLE in ms
//	           extend=<uuid>:<n>       the last EXTEND of a lease
//	           moves=2                 how often it was moved to another carrier
//	           until=5000              a renewed WRITE hold beside a READ hold of the same owner
//	                                   ends so many ms after the grant, unless it is renewed
//	id         "=" and the client's ID of the last acquire, or "-"
//	client     address, port and connection name of the client; the rest of the line
//
// The words up to the carrier, with the space behind it, are the record's prefix. Renewal and
// release on disconnect act only on a record that begins with theirs (R11). A new carrier
// (LOCK.ATTACH) writes a new carrier, request, reply and client. The request number is then one of
// the new carrier's own numbers.
type Record struct {
	Token   int64
	Carrier string
	Request string
	Since   int64
	TTL     int64
	Options string
	Ext     string
	ID      string
	Client  string
}

const RecordField = "leash"

// RecordPrefix is the start of the record of a hold.
func RecordPrefix(token int64, carrier string) string {
	return string(appendRecordPrefix(nil, token, carrier))
}

func appendRecordPrefix(dst []byte, token int64, carrier string) []byte {
	dst = strconv.AppendInt(append(dst, "L1 "...), token, 10)
	return append(append(append(dst, ' '), carrier...), ' ')
}

// ParseRecord reads a record. ok is false for any other text.
func ParseRecord(text string) (r Record, ok bool) {
	f := strings.SplitN(text, " ", 11)
	if len(f) != 11 || f[0] != "L1" {
		return Record{}, false
	}
	r = Record{Carrier: f[2], Request: f[3], Options: f[7], Ext: f[8], ID: f[9], Client: f[10]}
	var err [3]error
	r.Token, err[0] = strconv.ParseInt(f[1], 10, 64)
	r.Since, err[1] = strconv.ParseInt(f[5], 10, 64)
	r.TTL, err[2] = strconv.ParseInt(f[6], 10, 64)
	return r, err == [3]error{}
}

// RecordID is a client's ID in the form of a record.
func RecordID(id string) string {
	if id == "" {
		return "-"
	}
	return "=" + id
}

// LastID is the client's ID of the last acquire, "" when it had none.
func (r Record) LastID() string {
	if id, ok := strings.CutPrefix(r.ID, "="); ok {
		return id
	}
	return ""
}

// recordClient makes a client's description fit for the end of a record.
func recordClient(client string) string {
	if client == "" {
		return "-"
	}
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, client)
	return clean[:min(len(clean), 200)]
}

// Terms are the options of a hold besides its TTL. The first acquire decides them, except
// lease: a hold is renewed if any of its acquires had no LEASE. They are in the record and so go
// along to another carrier.
type Terms struct {
	Flags
	MaxHold time.Duration // MAXHOLD; 0 for no limit
	Idle    time.Duration // IDLE; 0 for no limit
	Pairs   string        // other name=value pairs of the record, with "," between them
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
	if t.Pairs != "" {
		pairs = append(pairs, t.Pairs)
	}
	return cmp.Or(strings.Join(pairs, ","), "-")
}

// notInPairs are the names of pairs that Terms.Pairs does not keep: those with fields of their own,
// and those that say what has happened to the hold.
var notInPairs = []string{"max", "idle", "extend", "moves", "until"}

// Terms reads the terms of a record. A Leash of another version may have written it. Pairs that
// this version does not know go along to wherever the hold goes.
func (r Record) Terms() Terms {
	t := Terms{Flags: Flags{
		Lease: !strings.HasPrefix(r.Options, "w"), StayOnClose: strings.Contains(r.Options, "e"),
		ErrorOnLoss: strings.Contains(r.Options, "o"),
		Fair:        strings.Contains(r.Options, "f"),
	}}
	t.MaxHold, t.Idle = r.extTime("max"), r.extTime("idle")
	var others []string
	for pair := range strings.SplitSeq(r.Ext, ",") {
		if name, _, ok := strings.Cut(pair, "="); ok && !slices.Contains(notInPairs, name) {
			others = append(others, pair)
		}
	}
	t.Pairs = strings.Join(others, ",")
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
