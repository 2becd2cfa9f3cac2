package proxy_test

import (
	"testing"

	"leash/proxy/resp"
	"leash/proxy/scan"
	"leash/proxy/slots"
)

// FuzzOddReplies gives replies of any shape to the code that decodes replies of ordinary commands.
// FuzzMerge of package merge does so for the merges, and FuzzLeastAnswer for WAIT.
func FuzzOddReplies(f *testing.F) {
	for _, frame := range []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$3\r\nabc\r\n", "*2\r\n:1\r\n:0\r\n",
		"*1\r\n$1\r\na\r\n", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n",
		"%1\r\n+a\r\n:1\r\n", "~1\r\n:1\r\n", "_\r\n", ":9223372036854775807\r\n", "$0\r\n\r\n", "+\r\n", "-\r\n",
		"-MOVED 99999 x\r\n", "-MOVED -1 x\r\n", "-MOVED\r\n", "-MOVED 9  x\r\n",
	} {
		f.Add([]byte(frame))
	}
	f.Fuzz(func(t *testing.T, a []byte) {
		if !isReply(a) {
			return
		}
		scan.ParseReply(a)
		if r, ok := slots.ParseRedirect(a); ok && (r.Slot < 0 || r.Slot >= slots.Count || r.Addr == "") {
			t.Errorf("%q: %+v", a, r)
		}
	})
}

// isReply reports whether b is one whole reply.
func isReply(b []byte) bool {
	var s resp.Scanner
	n, done, err := s.Scan(b)
	return err == nil && done && n == len(b)
}
