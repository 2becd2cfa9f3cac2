package resp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadReply(t *testing.T) {
	for _, frame := range frames {
		for name, r := range map[string]io.Reader{
			"at once": strings.NewReader(frame), "byte by byte": iotest.OneByteReader(strings.NewReader(frame)),
			"with the end": iotest.DataErrReader(strings.NewReader(frame)),
		} {
			if got, err := ReadReply(r, 1000, false); string(got) != frame || err != nil {
				t.Errorf("%q %s: got %q, %v", frame, name, got, err)
			}
		}
	}
	for text, most := range map[string]int{":\n": 100, "+OK\r\n+OK\r\n": 100, "$9999999999999\r\n": 100,
		"+" + strings.Repeat("a", 1000) + "\r\n": 100} {
		if got, err := ReadReply(strings.NewReader(text), most, false); !errors.Is(err, ErrFrame) {
			t.Errorf("%.30q: got %.30q, %v, want ErrFrame", text, got, err)
		}
	}
	if _, err := ReadReply(strings.NewReader("%0\r\n"), 100, true); !errors.Is(err, ErrFrame) {
		t.Errorf("a map in RESP2: got %v, want ErrFrame", err)
	}
	if _, err := ReadReply(strings.NewReader("$5\r\nab"), 100, true); !errors.Is(err, io.EOF) {
		t.Errorf("half a reply: got %v, want EOF", err)
	}
}

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

// FuzzPlain checks that no bytes make ReadReply panic and that it reads at most one whole reply.
func FuzzPlain(f *testing.F) {
	for _, frame := range frames {
		f.Add([]byte(frame))
	}
	f.Add([]byte("$9223372036854775807\r\n"))
	f.Add([]byte("*9223372036854775807\r\n:1\r\n"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		plain := Plain(frame)
		s := Scanner{RESP2: true}
		n, done, err := s.Scan(frame)
		if whole := err == nil && done && n == len(frame); plain && !whole && !bytes.ContainsAny(frame, "_#,(=!~>%|") {
			if reply, err := ReadReply(bytes.NewReader(frame), len(frame), true); err == nil {
				t.Errorf("%q: plain, and read as %q", frame, reply)
			}
		}
	})
}
