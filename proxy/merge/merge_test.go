package merge

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"leash/proxy/resp"
)

// all are the functions of this package by name, for tests of what holds for each.
var all = map[string]Func{
	"First": First, "Sum": Sum, "Most": Most, "Least": Least, "Values": Values, "Lists": Lists,
	"AtMost(1)": AtMost(1), "Slowlog(2)": Slowlog(2), "Slowlog(-1)": Slowlog(-1), "ACLLog(2)": ACLLog(2),
	"Latest": Latest, "History": History, "RandomKey": RandomKey(func(n int64) int64 { return n - 1 }),
	"Rewritten": Rewritten(func(reply []byte) []byte { return reply }),
	"Info":      Info{}.Merge, "Info of RESP3": Info{RESP3: true, Section: []byte("# Leash\r\na:1\r\n"),
		Missing: 1}.Merge,
}

// mismatch stands for the error in the tables below.
const mismatch = "mismatch"

// TestMerge merges replies that nodes give, and replies that do not fit together. Parts of a row
// are separated by a vertical bar. Line ends are left out.
func TestMerge(t *testing.T) {
	const most, least = ":9223372036854775807", ":-9223372036854775808"
	for _, c := range []struct {
		merge   string
		replies string
		want    string
	}{
		{"First", "+OK|+OK", "+OK"},
		{"First", "", mismatch},
		{"Sum", ":1|:2|:-4", ":-1"},
		{"Sum", ":0", ":0"},
		{"Sum", "", ":0"},
		{"Sum", most + "|:0", most},
		{"Sum", most + "|:1", mismatch},
		{"Sum", least + "|:-1", mismatch},
		{"Sum", least + "|" + most, ":-1"},
		{"Sum", ":1|+OK", mismatch},
		{"Sum", ":1|$-1", mismatch},
		{"Sum", ":1|_", mismatch},
		{"Sum", ":1|*1 :1", mismatch},
		{"Sum", ":1|:", mismatch},
		{"Most", ":0|:1|:0", ":1"},
		{"Most", ":0|$1 1", mismatch},
		{"Least", ":30|:10|:20", ":10"},
		{"Least", "*2 :1 :0|*2 :1 :1", "*2 :1 :0"},
		{"Least", "*0|*0", "*0"},
		{"Least", "*2 :1 :0|*1 :1", mismatch},
		{"Least", "*1 :1|*2 :1 :0", mismatch},
		{"Least", ":1|*1 :1", mismatch},
		{"Least", "*1 :1|:1", mismatch},
		{"Least", "*-1|*-1", mismatch},
		{"Least", "*2 :1", mismatch},
		{"Least", "*1 $1 a", mismatch},
		{"Least", "*9223372036854775807 :1", mismatch},
		{"Least", "*99999999999999999999 :1", mismatch},
		{"Values", "*2 $1 a $1 c|*1 $1 b", "*3 $1 a $1 b $1 c"},
		{"Values", "*2 $-1 $0 |*1 _", "*3 $-1 _ $0 "},
		{"Values", "*1 $1 a|*1 $1 b", mismatch},
		{"Values", "*2 $1 a|*1 $1 b", mismatch},
		{"Values", "*-1|*1 $1 b", mismatch},
		{"Values", "$1 a|*1 $1 b", mismatch},
		{"Values", "*9223372036854775807 $1 a|*1 $1 b", mismatch},
		{"Lists", "*1 $1 a|*0|*2 $1 b $1 c", "*3 $1 a $1 b $1 c"},
		{"Lists", "~1 $1 a|*1 $1 b", "~2 $1 a $1 b"},
		{"Lists", "", mismatch},
		{"Lists", "*1 $1 a|*-1", mismatch},
		{"Lists", "*1 $1 a|%1 :1 :1", mismatch},
		{"Lists", "*9223372036854775807 :1|*1 :1", mismatch},
		{"AtMost(1)", "*0|*2 :1 :2", "*1 :1"},
		{"AtMost(1)", "*0", "*0"},
		{"AtMost(1)", "*2 :1", mismatch},
		{"Slowlog(2)", "*1 *2 :0 :30|*2 *2 :1 :50 *2 :0 :10", "*2 *2 :1 :50 *2 :0 :30"},
		{"Slowlog(-1)", "*1 *2 :0 :30|*2 *2 :1 :50 *2 :0 :10", "*3 *2 :1 :50 *2 :0 :30 *2 :0 :10"},
		{"Slowlog(2)", "*1 *2 :0 :30|*1 :1", mismatch},
		{"Slowlog(2)", "*1 *2 :0 :30|*1 *1 :1", mismatch},
		{"Slowlog(2)", "*1 *2 :0 :30|*1 *2 :1 $-1", mismatch},
		{"Slowlog(2)", "-ERR one master answers for itself", "-ERR one master answers for itself"},
		{"ACLLog(2)", "*1 *2 $11 age-seconds $3 2.5|*1 *2 $11 age-seconds $3 1.5",
			"*2 *2 $11 age-seconds $3 1.5 *2 $11 age-seconds $3 2.5"},
		{"ACLLog(2)", "*1 %1 $11 age-seconds ,2.5|*1 %1 $11 age-seconds ,1.5",
			"*2 %1 $11 age-seconds ,1.5 %1 $11 age-seconds ,2.5"},
		{"ACLLog(2)", "*1 *2 $1 a :1|*0", mismatch},
		{"Latest", "*1 *4 $1 a :10 :5 :9|*2 *4 $1 a :20 :3 :4 *4 $1 b :1 :1 :1",
			"*2 *4 $1 a :20 :3 :9 *4 $1 b :1 :1 :1"},
		{"Latest", "*1 *3 $1 a :10 :5|*0", mismatch},
		{"Latest", "*1 $-1|*0", mismatch},
		{"History", "*1 *2 :20 :1|*2 *2 :10 :2 *2 :30 :3", "*3 *2 :10 :2 *2 :20 :1 *2 :30 :3"},
		{"History", "*1 :1|:1", mismatch},
		{"RandomKey", "$1 a|:1", "$1 a"},
		{"RandomKey", "$-1|:0|$1 b|:1", "$1 b"},
		{"RandomKey", "_|:0|_|:0", "_"},
		{"RandomKey", "$1 a", mismatch},
		{"RandomKey", "", mismatch},
		{"RandomKey", "$1 a|-NOPERM no", "$1 a"},
		{"RandomKey", "$1 a|" + most + "|$1 b|" + most, "$1 a"},
		{"Rewritten", ":1", ":1"},
		{"Rewritten", ":1|:1", mismatch},
		{"Info", "$-1", mismatch},
		{"Info", ":1", mismatch},
		{"Info", "", mismatch},
	} {
		if got := text(Merge(all[c.merge], replies(c.replies))); got != strings.ReplaceAll(c.want, mismatch,
			"-"+Mismatch) {
			t.Errorf("%s of %s: got %s, want %s", c.merge, c.replies, got, c.want)
		}
	}
}

// replies are the replies of a row of a table. The first is about the keys 0 and 2, the second
// about the key 1. An error is spare.
func replies(row string) (rs []*Reply) {
	if row == "" {
		return nil
	}
	keys := [][]int{{0, 2}, {1}}
	for i, one := range strings.Split(row, "|") {
		words := strings.Split(one, " ")
		if one[0] == '-' {
			words = []string{one}
		}
		r := inPieces([]byte(strings.Join(words, "\r\n") + "\r\n"))
		r.Spare = one[0] == '-'
		if i < len(keys) {
			r.Keys = keys[i]
		}
		rs = append(rs, r)
	}
	return rs
}

// inPieces returns a reply that is kept in pieces, as a large one is.
func inPieces(reply []byte) *Reply {
	start := bytes.IndexByte(reply, '\n') + 1
	r := Of(bytes.Clone(reply[:start]))
	r.rest.Append(reply[start:])
	return &r
}

// text returns a reply without line ends.
func text(r Reply) string {
	return strings.ReplaceAll(strings.TrimSuffix(string(r.Bytes()), "\r\n"), "\r\n", " ")
}

// TestErrors checks which error a command gets if parts fail.
func TestErrors(t *testing.T) {
	const other = "-ERR other"
	for _, c := range []struct {
		replies, spare, want string
	}{
		{":1|" + other, "", other},
		{other + "|-ERR later", "", other},
		{"-" + NotSent + "|-" + NotSent, "", "-" + NotSent},
		{"-" + NotSent + "|:1", "", "-" + NotSentPartly},
		{":1|-" + NotSent, "", "-" + NotSentPartly},
		{"-" + NotSent + "|" + other, "", "-" + NotSent},
		{"$1 a|-ERR no size", "second", "$1 a"},
		{"-ERR no key|-ERR no size", "second", "-ERR no key"},
	} {
		rs := replies(c.replies)
		for i, r := range rs {
			r.Spare = i == 1 && c.spare != ""
		}
		m := First
		if c.spare != "" {
			m = all["RandomKey"]
		}
		if got := text(Merge(m, rs)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.replies, got, c.want)
		}
	}
}

// frames are replies of all types, whole ones and broken ones.
var frames = []string{
	"", "\r\n", "+OK\r\n", "-ERR no\r\n", ":1\r\n", ":-1\r\n", ":9223372036854775807\r\n",
	":-9223372036854775808\r\n", ":99999999999999999999\r\n", ":\r\n", ":x\r\n", ":1",
	"$-1\r\n", "*-1\r\n", "_\r\n", "$0\r\n\r\n", "$3\r\nabc\r\n", "$3\r\nab", "$9223372036854775807\r\na\r\n",
	"=7\r\ntxt:a:1\r\n", "=0\r\n\r\n", ",1.5\r\n", ",nan\r\n", "#t\r\n", "(1\r\n",
	"*0\r\n", "~0\r\n", "%0\r\n", "*1\r\n", "*2\r\n:1\r\n:0\r\n", "*2\r\n:1\r\n", "*1\r\n:1\r\n:2\r\n",
	"*1\r\n*-1\r\n", "*1\r\n_\r\n", "*1\r\n$1\r\na\r\n", "~1\r\n:1\r\n", "%1\r\n+a\r\n:1\r\n",
	"*9223372036854775807\r\n:1\r\n", "%9223372036854775807\r\n:1\r\n", "%4611686018427387904\r\n:1\r\n",
	"*1152921504606846976\r\n", "*-9223372036854775808\r\n", "*99999999999999999999\r\n", "*\r\n", "*", "*1", "*1\r",
	"*1\r\n*2\r\n:1\r\n:2\r\n", "*1\r\n*4\r\n$1\r\na\r\n:1\r\n:2\r\n:3\r\n", "*1\r\n*3\r\n$1\r\na\r\n:1\r\n:2\r\n",
	"*1\r\n*4\r\n_\r\n_\r\n_\r\n_\r\n",
	"*1\r\n*6\r\n:1\r\n:2\r\n:3\r\n*0\r\n$1\r\na\r\n$1\r\nb\r\n", "*1\r\n*2\r\n$11\r\nage-seconds\r\n$3\r\n1.5\r\n",
	"*1\r\n*1\r\n$11\r\nage-seconds\r\n", "*1\r\n%1\r\n$11\r\nage-seconds\r\n,inf\r\n",
	"$10\r\n# A\r\na:1\r\n\r\n", "$29\r\n# Keyspace\r\ndb0:keys=x,,=,a\r\n\r\n",
	"$22\r\n# M\r\nused_memory:1.5\r\n\r\n", "$43\r\n# M\r\nused_memory:nan\r\nused_memory_human:1\r\n\r\n",
	"$39\r\n# P\r\naof_last_write_status:\r\nloading:\r\n\r\n",
}

// TestMergeNeverPanics tries all functions with all pairs of frames. From whole replies a function
// must make a whole reply.
func TestMergeNeverPanics(t *testing.T) {
	for name, m := range all {
		for _, a := range frames {
			try(t, name, m, a)
			for _, b := range frames {
				try(t, name, m, a, b)
				try(t, name, m, a, b, b, a)
			}
		}
	}
}

// FuzzMerge gives frames of any shape to all functions.
func FuzzMerge(f *testing.F) {
	for _, frame := range frames {
		f.Add([]byte(frame), []byte(frame))
		f.Add([]byte(frame), []byte("*2\r\n:1\r\n:0\r\n"))
		f.Add([]byte(frame), []byte(":9223372036854775807\r\n"))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for name, m := range all {
			try(t, name, m, string(a))
			try(t, name, m, string(a), string(b))
			try(t, name, m, string(b), string(a), string(a), string(b))
		}
	})
}

// try merges frames as replies, in one piece and in several. Errors are spare, so that the function
// gets them.
func try(t *testing.T, name string, m Func, frames ...string) {
	t.Helper()
	var merged [2]string
	for i, reply := range []func([]byte) *Reply{inOnePiece, inPieces} {
		var rs []*Reply
		for i, frame := range frames {
			r := reply([]byte(frame))
			r.Keys = [][]int{{0}, {2, 1}, {4, 3, 5}, nil}[i]
			r.Spare = true
			rs = append(rs, r)
		}
		got := Merge(m, rs)
		merged[i] = string(got.Bytes())
		if whole := !slices.ContainsFunc(frames, func(f string) bool { return !isReply(f) }); whole &&
			!isReply(merged[i]) {
			t.Errorf("%s makes of %q %q, which is no reply", name, frames, merged[i])
		}
	}
	if merged[0] != merged[1] {
		t.Errorf("%s of %q: %q, but %q if the replies are in pieces", name, frames, merged[0], merged[1])
	}
}

func inOnePiece(reply []byte) *Reply {
	r := Of(bytes.Clone(reply))
	return &r
}

// isReply reports whether s is one whole reply.
func isReply(s string) bool {
	var scan resp.Scanner
	n, done, err := scan.Scan([]byte(s))
	return err == nil && done && n == len(s)
}
