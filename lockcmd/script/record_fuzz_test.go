package script

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// FuzzParseRecord reads any text as a record, as Redis may have it. A record that is written again
// reads the same, and its times are within limits.
func FuzzParseRecord(f *testing.F) {
	for _, text := range []string{
		RecordPrefix(17, "u:1") + "3 17 1790000000000 30000 w - =id 127.0.0.1:5 my client",
		RecordPrefix(1, "u:1.1") + "1 1 1 1 lef max=60000,idle=5000,moves=2,until=5 - c",
		RecordPrefix(-1, "") + " x -9223372036854775808 9223372036854775807  max=9223372036854775807,max=-1 = ",
		"L1 01 u:1 3 17 1 1 w - - c", "L1 1 u 1 1 1 1 w max=,=,idle=1=2 - c", "L2 1 u 1 1 1 1 w - - c", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := ParseRecord(text)
		if !ok {
			if r != (Record{}) && r.Token != 0 && strings.HasPrefix(text, "L2") {
				t.Errorf("%q: %+v of another version", text, r)
			}
			return
		}
		reply, _, _ := strings.Cut(strings.TrimPrefix(text, "L1 "), " "+r.Carrier+" "+r.Request+" ")
		if n, err := strconv.ParseInt(reply, 10, 64); err != nil || n != r.Token {
			t.Errorf("%q: token %d", text, r.Token)
		}
		again, ok := ParseRecord(recordText(r))
		if !ok || again != r {
			t.Errorf("%q: %+v, written again %+v, %v", text, r, again, ok)
		}
		terms := r.Terms()
		for _, d := range []time.Duration{terms.MaxHold, terms.Idle} {
			if d < 0 || d > MaxTTL {
				t.Errorf("%q: %v", text, d)
			}
		}
		r.Options, r.Ext = terms.OptionLetters(), terms.Ext()
		if again := r.Terms(); again != terms {
			t.Errorf("%q: terms %+v, written again %+v", text, terms, again)
		}
	})
}

// TestUnknownPairsGoAlong checks that a hold keeps what a newer Leash has written about it, also
// when it is written back after a failover.
func TestUnknownPairsGoAlong(t *testing.T) {
	text := RecordPrefix(17000, "u:1.1") + "1 1 17 3 w max=60000,label=nightly,moves=1,until=5,stage=2 - c"
	r, ok := ParseRecord(text)
	if !ok {
		t.Fatal("no record")
	}
	h := RestoredHold{Token: 17000, Carrier: "u:1.1", Request: 2, TTL: time.Second, Terms: r.Terms(), Moves: 2, Client: "c"}
	const want = "2 17000 17 1000 w max=60000,label=nightly,stage=2,moves=2 - c"
	if got := h.record(Plain); got != RecordPrefix(17000, "u:1.1")+want {
		t.Errorf("got %q, want the prefix and %q", got, want)
	}
}

func recordText(r Record) string {
	return RecordPrefix(r.Token, r.Carrier) + strings.Join([]string{
		r.Request, "0", strconv.FormatInt(r.Since, 10), strconv.FormatInt(r.TTL, 10), r.Options, r.Ext, r.ID, r.Client,
	}, " ")
}

// FuzzRecordClient checks that a client cannot write beyond its own part of a record.
func FuzzRecordClient(f *testing.F) {
	f.Add("127.0.0.1:5 name", "id")
	f.Add("a\r\nL1 1 u 1", "-")
	f.Add("", "")
	f.Add(strings.Repeat("\u00e9", 101)+"\x7f\xff", "=x")
	f.Fuzz(func(t *testing.T, client, id string) {
		if strings.ContainsAny(id, " ") { // LOCK.ACQUIRE refuses it
			return
		}
		want := Record{Token: 5, Carrier: "u:1.1", Request: "1", Since: 2, TTL: 3, Options: "w", Ext: "-",
			ID:     RecordID(id),
			Client: recordClient(client)}
		text := recordText(want)
		got, ok := ParseRecord(text)
		if !ok || got != want || got.LastID() != id {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, ok, want)
		}
		if len(want.Client) > 200 || strings.ContainsAny(want.Client, "\r\n\x00") {
			t.Errorf("%q: client %q", client, want.Client)
		}
	})
}
