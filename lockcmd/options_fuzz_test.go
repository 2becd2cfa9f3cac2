package lockcmd

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/lockcmd/acquire"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/proxy/resp"
)

// allowedWords are the lists of options of all commands.
var allowedWords = []string{acquireWords, macquireWords, attachWords, releaseWords, ttlWords, checkWords,
	awaitLossWords, permitWords, "BLOCK"}

// FuzzOptions gives any words to the parser of options. Options that it accepts mean the same in
// another order and another case. What an ACQUIRE then asks for is within the limits.
func FuzzOptions(f *testing.F) {
	for _, line := range []string{
		"", "BLOCK 0", "block 5 LEASE 100 OWNER me ID 1", "TTL 99", "LEASE -1 TTL 5000", "READ", "READ WRITE",
		"FAIR BLOCK",
		"OWNER leash:x", "OWNER a ONCLOSE EXPIRE ONLOSS error", "TOKEN 1 OWNER x", "ALL TOKEN 9007199254740993",
		"MAXHOLD 9223372036854775807", "IDLE 1 MAXHOLD 1 LEASE 2", "QUORUM -5", "REPLICAS 2147483648",
		"COUNT 0", "OWNER me LEA\u017fE 5000", "COUNT 2 ID x", "BLOCK 9223372036854775808", "BLOCK BLOCK BLOCK 1",
	} {
		for i := range allowedWords {
			f.Add(uint8(i), []byte(strings.ReplaceAll(line, " ", "\n")))
		}
	}
	s := &Service{cfg: Config{WatchdogTimeout: 30 * time.Second}}
	f.Fuzz(func(t *testing.T, which uint8, lines []byte) {
		allowed := allowedWords[int(which)%len(allowedWords)]
		var args [][]byte
		if len(lines) > 0 {
			args = bytes.Split(lines, []byte("\n"))
		}
		o, msg := parseOptions(args, allowed)
		if msg != "" {
			if strings.ContainsAny(msg, "\r\n") {
				t.Errorf("%q: error %q", args, msg)
			}
			return
		}
		if word := notASCII(args); word != "" {
			t.Errorf("%q: %q is an option", args, word)
		}
		other, msg := parseOptions(reversed(args), allowed)
		o.Mode, other.Mode = anyOrder(o.Mode), anyOrder(other.Mode)
		if msg != "" || !reflect.DeepEqual(o, other) {
			t.Errorf("%q: %+v, in another order %+v, %q", args, o, other, msg)
		}
		for _, command := range []string{"LOCK.ACQUIRE", "SEM.ACQUIRE"} {
			if opts, msg := s.acquireOptionsOf(command, o); msg == "" {
				checkTimes(t, args, opts)
			}
		}
	})
}

// reversed puts the options of a valid command into the opposite order, in lower case where they
// are words.
func reversed(args [][]byte) (all [][]byte) {
	var o options
	for i := 0; i < len(args); i++ {
		one := [][]byte{lower(args[i])}
		if !o.flag(resp.Word(args[i])) {
			i++
			one = append(one, args[i])
		}
		all = append(one, all...)
	}
	return all
}

// lower changes letters of ASCII alone.
func lower(word []byte) []byte {
	word = bytes.Clone(word)
	for i, c := range word {
		if 'A' <= c && c <= 'Z' {
			word[i] = c + 'a' - 'A'
		}
	}
	return word
}

// notASCII returns the name of a valid command's option that has other bytes than ASCII.
func notASCII(args [][]byte) string {
	var o options
	for i := 0; i < len(args); i++ {
		if bytes.ContainsFunc(args[i], func(r rune) bool { return r > 'z' }) {
			return string(args[i])
		}
		if !o.flag(resp.Word(args[i])) {
			i++
		}
	}
	return ""
}

// anyOrder is a mode that does not depend on the order of its words. Two words make no mode.
func anyOrder(mode string) string {
	for _, m := range script.Modes {
		if m.Option == mode {
			return mode
		}
	}
	return "none"
}

func checkTimes(t *testing.T, args [][]byte, opts acquire.Options) {
	t.Helper()
	times := map[string]time.Duration{"TTL": opts.TTL, "BLOCK": opts.Block, "MAXHOLD": opts.MaxHold, "IDLE": opts.Idle}
	for name, d := range times {
		if d < 0 || d > script.MaxTTL || d%time.Millisecond != 0 {
			t.Errorf("%q: %s %v", args, name, d)
		}
	}
	if opts.TTL == 0 || !opts.Lease && opts.TTL < MinTTL ||
		opts.Lease && opts.MaxHold > 0 && opts.TTL > hold.CapLease(script.MaxTTL, opts.MaxHold) {
		t.Errorf("%q: %+v", args, opts)
	}
	if opts.Mode == nil || opts.Owner != "" && !validOwner(opts.Owner) {
		t.Errorf("%q: %+v", args, opts)
	}
	record := script.RecordPrefix(1, "u:1.1") + "1 1 1 1 " + opts.OptionLetters() + " " + opts.Ext() + " " +
		script.RecordID(opts.ID) + " c"
	if r, ok := script.ParseRecord(record); !ok || r.Terms() != opts.Terms || r.LastID() != opts.ID {
		t.Errorf("%q: the record %q has %+v, want %+v", args, record, r.Terms(), opts.Terms)
	}
}

// FuzzPermit checks that what names a permit is the only way to write that permit, but for the case
// of its letters.
func FuzzPermit(f *testing.F) {
	f.Add([]byte("00112233445566778899aabbccddeeff"))
	f.Add([]byte("00112233445566778899AABBCCDDEEFF0"))
	f.Add([]byte("9223372036854775807"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if permit, ok := parsePermit(text); ok && !strings.EqualFold(permit, string(text)) {
			t.Errorf("%q names the permit %q", text, permit)
		}
		n, msg := parseCount(text, maxPermits)
		if msg == "" && (n < 0 || n > maxPermits || strconv.FormatInt(n, 10) != string(text)) {
			t.Errorf("%q is the count %d", text, n)
		}
	})
}
