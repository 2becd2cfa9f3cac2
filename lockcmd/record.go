package lockcmd

import (
	"strconv"
	"strings"
)

// A record is what Leash keeps in Redis of a hold: for a plain or FAIR lock the field "leash" of
// the lock's hash, for READ and WRITE holds a field named as the owner in the hash {K}:leash, for
// permits a field named as the permit there. One line of words with one space between them; only
// the last may hold spaces itself:
//
//	L1         the version of this layout. It never reads as a number, for Redisson loops up to numbers it finds
//	token      decimal, below 2^53; of a permit a number of its carrier's Leash, which only tells one hold of it from another
//	carrier    <leash uuid>:<session id>.<n>, n minted by the Leash for each carrier
//	request    decimal: the number of the last request of the carrier that acted on the hold (R7)
//	reply      decimal: what that request was answered, repeated when the request is
//	since      decimal: Redis's clock at the grant, ms since 1970
//	ttl        decimal: ms a renewal raises the key's TTL to; for a hold that is not renewed, its lease
//	options    letters: w renewed or l lease, always the first; then e: it stays when its connection ends (ONCLOSE EXPIRE),
//	           o: its connection stays open when it is lost (ONLOSS ERROR), f: it was taken FAIR
//	more       "-", or name=value pairs with "," between them: max=60000, it may be held for so many ms (MAXHOLD);
//	           idle=5000, its client may be silent for so many (IDLE);
//	           extend=<leash uuid>:<n>, the last EXTEND of a lease; moves=2, it was moved to another carrier so often; until=5000, a renewed WRITE hold beside its owner's
//	           READ hold is over so many ms after the grant, unless it is renewed
//	id         "=" and the client's ID of the last acquire, or "-"
//	client     who asked: address, port and connection name, as far as known. The rest of the line
//
// The words up to carrier and the space behind it are the record's mark: renewal and release on
// disconnect act only on a record that begins with theirs (R11). A new carrier (ATTACH) rewrites
// carrier, request, reply and client; request then starts from that carrier's own numbers.
type record struct {
	token   int64
	carrier string
	request string
	since   int64
	ttl     int64
	opts    string
	ext     string
	id      string
	client  string
}

const recordField = "leash"

// recordPrefix is how the record of a hold begins.
func recordPrefix(token int64, carrier string) string {
	return string(appendRecordPrefix(nil, token, carrier))
}

func appendRecordPrefix(dst []byte, token int64, carrier string) []byte {
	dst = strconv.AppendInt(append(dst, "L1 "...), token, 10)
	return append(append(append(dst, ' '), carrier...), ' ')
}

// parseRecord reads a record; ok is false for bytes that are none.
func parseRecord(text string) (r record, ok bool) {
	f := strings.SplitN(text, " ", 11)
	if len(f) != 11 || f[0] != "L1" {
		return record{}, false
	}
	r = record{carrier: f[2], request: f[3], opts: f[7], ext: f[8], id: f[9], client: f[10]}
	var err [3]error
	r.token, err[0] = strconv.ParseInt(f[1], 10, 64)
	r.since, err[1] = strconv.ParseInt(f[5], 10, 64)
	r.ttl, err[2] = strconv.ParseInt(f[6], 10, 64)
	return r, err == [3]error{}
}

// recordID is a client's ID as a record has it.
func recordID(id string) string {
	if id == "" {
		return "-"
	}
	return "=" + id
}

// lastID is the client's ID of the last acquire, "" when it had none.
func (r record) lastID() string {
	if id, ok := strings.CutPrefix(r.id, "="); ok {
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
