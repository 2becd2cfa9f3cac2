package script

import (
	"strconv"
	"testing"
)

func TestNamesAreRedissons(t *testing.T) {
	t.Parallel()
	for _, row := range [][4]string{
		{"order", "redisson_lock__channel:{order}", "redisson_lock_token:{order}", "{order}:leash"},
		{"{a}:b", "redisson_lock__channel:{a}:b", "redisson_lock_token:{a}:b", "{a}:b:leash"},
		{"a{b", "redisson_lock__channel:a{b", "redisson_lock_token:a{b", "a{b:leash"},
		{"a}b", "redisson_lock__channel:{a}b}", "redisson_lock_token:{a}b}", "{a}b}:leash"},
	} {
		got := [4]string{row[0], LockChannel(row[0]), TokenKey(row[0]), SuffixName(row[0], "leash")}
		if got != row {
			t.Errorf("got %q, want %q", got, row)
		}
	}
	if got := TombstoneKey("k", 5, "u:1"); got != "{k}:leash:5:u:1" {
		t.Errorf("got tombstone %q", got)
	}
	if got := CarrierChannel("u-u:1"); got != "leash:u-u" {
		t.Errorf("got channel %q", got)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	text := RecordPrefix(17, "u:1") + "3 17 1790000000000 30000 w - =id 127.0.0.1:5 my client"
	r, ok := ParseRecord(text)
	want := Record{Token: 17, Carrier: "u:1", Request: "3", Since: 1790000000000, TTL: 30000, Options: "w",
		Ext: "-", ID: "=id", Client: "127.0.0.1:5 my client"}
	if !ok || r != want {
		t.Errorf("got %+v, %v, want %+v", r, ok, want)
	}
	if _, err := strconv.ParseFloat(text[:2], 64); err == nil {
		t.Error("a record begins as a number, and Redisson loops up to numbers")
	}
	for _, bad := range []string{"", "1", "L1", "L2 17 u:1 3 17 1 1 w - - c", "L1 x u:1 3 17 1 1 w - - c",
		"L1 17 u:1 3 17 1 1 w - -"} {
		if r, ok := ParseRecord(bad); ok {
			t.Errorf("%q: got %+v, want no record", bad, r)
		}
	}
	if got := recordClient("a\r\nb\x00"); got != "a??b?" {
		t.Errorf("got client %q", got)
	}
}

func TestHugeNumbersDoNotOverflow(t *testing.T) {
	if d := Millis(1<<63 - 1); d <= 0 {
		t.Errorf("%v, want a long time", d)
	}
	if d := Millis(-1 << 63); d >= 0 {
		t.Errorf("%v, want a time that is over", d)
	}
}
