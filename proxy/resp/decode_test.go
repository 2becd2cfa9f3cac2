package resp

import (
	"reflect"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for reply, want := range map[string]any{
		"+OK\r\n": "OK", "$2\r\na\r\r\n": "a\r", ":-7\r\n": int64(-7), "$-1\r\n": nil, "*-1\r\n": nil, "*0\r\n": []any{},
		"-ERR a b\r\n":                             ReplyError("ERR a b"),
		"*3\r\n$1\r\nx\r\n*1\r\n:1\r\n*-1\r\n":     []any{"x", []any{int64(1)}, nil},
		"*2\r\n*2\r\n+a\r\n$0\r\n\r\n*1\r\n*0\r\n": []any{[]any{"a", ""}, []any{[]any{}}},
	} {
		if got, ok := Decode([]byte(reply)); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, %v, want %#v", reply, got, ok, want)
		}
	}
	for _, bad := range []string{
		"", "+", ":\r\n", ":x\r\n", "$9\r\nab\r\n", "*2\r\n:1\r\n", "*2147483647\r\n", "*2\r\n-ERR no\r\n:1\r\n",
		"%1\r\n+a\r\n:1\r\n", "_\r\n", ":1\r\n:2\r\n", strings.Repeat("*1\r\n", 100) + ":1\r\n",
	} {
		if got, ok := Decode([]byte(bad)); ok {
			t.Errorf("%.30q: got %#v, want nothing", bad, got)
		}
	}
}
