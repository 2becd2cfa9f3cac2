package resp

import (
	"bytes"
	"testing"

	"github.com/tidwall/redcon"
)

// FuzzReply checks that the scanner, byte by byte and at once, Elements, Decode and another library
// agree about a reply, and that no bytes make Plain panic.
func FuzzReply(f *testing.F) {
	for _, frame := range frames {
		f.Add([]byte(frame))
	}
	f.Add([]byte("*2\r\n$-1\r\n*1\r\n:-1\r\n"))
	f.Fuzz(func(t *testing.T, reply []byte) {
		for _, resp2 := range []bool{true, false} {
			s := Scanner{RESP2: resp2}
			n, done, err := s.Scan(reply)
			whole := err == nil && done && n == len(reply)
			if got := wholeByteByByte(reply, resp2); got != whole {
				t.Fatalf("%q: whole is %v, byte by byte %v", reply, whole, got)
			}
			if whole {
				checkElements(t, reply)
			}
			if plain := Plain(reply); plain && whole && resp2 {
				if n, _ := redcon.ReadNextRESP(reply); n != len(reply) {
					t.Errorf("%q: redcon reads %d of %d bytes", reply, n, len(reply))
				}
			}
			if value, ok := Decode(reply); ok && !whole && resp2 {
				t.Errorf("%q is not whole: decoded as %v", reply, value)
			}
		}
	})
}

// wholeByteByByte reports whether a scanner that gets one byte at a time finds one reply, which is
// whole.
func wholeByteByByte(reply []byte, resp2 bool) bool {
	s := Scanner{RESP2: resp2}
	for i := range reply {
		n, done, err := s.Scan(reply[i : i+1])
		if err != nil || n != 1 {
			return false
		}
		if done {
			return i == len(reply)-1
		}
	}
	return false
}

// checkElements checks that a whole array consists of its elements and nothing else.
func checkElements(t *testing.T, reply []byte) {
	all, ok := Elements(reply)
	if !ok {
		return
	}
	if cap(all) > 2*len(reply)+8 {
		t.Errorf("%q: room for %d elements", reply, cap(all))
	}
	header, _, _ := bytes.Cut(reply, []byte("\r\n"))
	if joined := bytes.Join(all, nil); len(header)+2+len(joined) != len(reply) || !bytes.HasSuffix(reply, joined) {
		t.Errorf("%q: elements %q", reply, all)
	}
}
