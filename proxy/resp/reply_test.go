package resp

import (
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	for _, frame := range []string{"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
		"$4\r\na\r\nb\r\n", "*3\r\n*0\r\n*2\r\n:1\r\n$-1\r\n+x\r\n", strings.Repeat("*1\r\n", maxDepth) + ":1\r\n"} {
		if !Plain([]byte(frame)) {
			t.Errorf("%q: is refused", frame)
		}
	}
	for _, frame := range []string{strings.Repeat("*1\r\n", maxDepth+1) + ":1\r\n",
		strings.Repeat("*1\r\n", 1<<20) + ":1\r\n", "*2\r\n-ERR no\r\n:1\r\n", "*1\r\n*1\r\n-x\r\n"} {
		if Plain([]byte(frame)) {
			t.Errorf("%.30q: is taken", frame)
		}
	}
}
