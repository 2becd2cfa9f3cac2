package replication

import (
	"testing"

	"leash/proxy/resp"
	"leash/proxy/route"
)

// FuzzLeastAnswer gives replies of any shape to the merge of WAIT. It must make one whole reply.
func FuzzLeastAnswer(f *testing.F) {
	for _, frame := range []string{
		":1\r\n", "*2\r\n:1\r\n:0\r\n", "-ERR no\r\n", "_\r\n", "*-1\r\n", "*0\r\n", "$3\r\nabc\r\n",
		":9223372036854775807\r\n", "+\r\n", "%1\r\n+a\r\n:1\r\n",
	} {
		f.Add([]byte(frame), []byte(":2\r\n"))
		f.Add([]byte(frame), []byte("*2\r\n:1\r\n:0\r\n"))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if !isReply(a) || !isReply(b) {
			return
		}
		for _, left := range []bool{false, true} {
			if least := leastAnswer([]*route.Answer{{Bytes: a}, {Bytes: b}}, left); !isReply(least) {
				t.Errorf("%q and %q make %q, which is no reply", a, b, least)
			}
		}
	})
}

// isReply reports whether b is one whole reply.
func isReply(b []byte) bool {
	var s resp.Scanner
	n, done, err := s.Scan(b)
	return err == nil && done && n == len(b)
}

// TestLeastAnswer checks which answer of several nodes WAIT gives.
func TestLeastAnswer(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		left bool
		want string
	}{
		{":2\r\n", ":1\r\n", false, ":1\r\n"},
		{":2\r\n", ":1\r\n", true, ":0\r\n"},
		{"*2\r\n:1\r\n:2\r\n", "*2\r\n:3\r\n:1\r\n", false, "*2\r\n:1\r\n:1\r\n"},
		{"*2\r\n:1\r\n:2\r\n", "*2\r\n:3\r\n:1\r\n", true, "*2\r\n:0\r\n:0\r\n"},
		{":2\r\n", "-ERR no\r\n", false, "-ERR no\r\n"},
	} {
		answers := []*route.Answer{{Bytes: []byte(tc.a)}, {Bytes: []byte(tc.b)}}
		if got := string(leastAnswer(answers, tc.left)); got != tc.want {
			t.Errorf("%q and %q, left %v: got %q, want %q", tc.a, tc.b, tc.left, got, tc.want)
		}
	}
	lost := []*route.Answer{{Bytes: []byte(":1\r\n")}, {Missing: true, Written: true}}
	if got := leastAnswer(lost, false); got[0] != '-' {
		t.Errorf("a reply that is lost: %q", got)
	}
}
