package proxy

import (
	"bytes"
	"testing"

	"leash/proxy/resp"
)

// FuzzMerge gives frames of any shape to all code that decodes ordinary replies, such as the merges
// of replies of several nodes.
func FuzzMerge(f *testing.F) {
	for _, frame := range []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$3\r\nabc\r\n", "*2\r\n:1\r\n:0\r\n", "*1\r\n$1\r\na\r\n", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n",
		"*1\r\n*4\r\n$1\r\na\r\n:1\r\n:2\r\n:3\r\n", "*1\r\n*6\r\n:1\r\n:2\r\n:3\r\n*0\r\n$1\r\na\r\n$1\r\nb\r\n", "%1\r\n+a\r\n:1\r\n", "~1\r\n:1\r\n", "_\r\n", ",1.5\r\n", "=7\r\ntxt:a:1\r\n",
		"$10\r\n# A\r\na:1\r\n\r\n", "*2\r\n$1\r\na\r\n*0\r\n", ":9223372036854775807\r\n", "*1\r\n:-9223372036854775808\r\n", "$0\r\n\r\n", "+\r\n", "-\r\n", "-MOVED 99999 x\r\n", "-MOVED -1 x\r\n", "-MOVED\r\n",
	} {
		f.Add([]byte(frame), []byte(frame))
		f.Add([]byte(frame), []byte("*2\r\n:1\r\n:0\r\n"))
		f.Add([]byte(frame), []byte(":9223372036854775807\r\n"))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if !isReply(a) || !isReply(b) {
			return
		}
		report := &infoReport{}
		for _, m := range []merge{
			mergeOK, mergeSum, mergeAll, mergeValues, mergeLists, mergeMax, mergeLeast, mergeLatest, mergeHistory, mergeRandomKey, report.merge,
			newest(2, func(entry [][]byte) (float64, bool) { return 0, len(entry) > 0 }),
		} {
			fan := &fanout{parts: []*part{partOf(a, 0), partOf(b, 1, 2)}, keys: 3, merge: m}
			whole := append([]byte{}, fan.result()...)
			fan.body.TakeAll(func(p []byte) { whole = append(whole, p...) })
			if !isReply(whole) {
				t.Errorf("%q and %q make %q, which is no reply", a, b, whole)
			}
		}
		mergeRandomKey(&fanout{parts: []*part{{reply: a}, {reply: b}, {reply: b}, {reply: a}, {reply: a}, {reply: a}}})
		parseScanReply(a)
		integers(a)
		countsReply(a, 2)
		elements(a)
		value(a)
		leastAnswer([]*answer{{reply: a}, {reply: b}}, false)
		lockReplyRESP3(a, true)
		if len(a) > 1 && a[0] == '-' {
			parseRedirect(a[1:])
		}
	})
}

// partOf returns a part whose reply arrived in pieces, like a large one.
func partOf(reply []byte, keys ...int) *part {
	p := &part{keys: keys}
	start := bytes.IndexByte(reply, '\n') + 1
	p.reply = bytes.Clone(reply[:start])
	p.rest.Append(reply[start:])
	return p
}

// isReply reports whether b is one whole reply.
func isReply(b []byte) bool {
	var s resp.Scanner
	n, done, err := s.Scan(b)
	return err == nil && done && n == len(b)
}
