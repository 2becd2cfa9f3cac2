package resp

import (
	"bytes"
	"testing"
	"testing/iotest"

	"github.com/tidwall/redcon"
)

// FuzzReply checks that the scanner, ReadReply, Elements, Decode and another library agree about a
// reply.
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
			got, err := ReadReply(iotest.OneByteReader(bytes.NewReader(reply)), len(reply), resp2)
			if whole && (err != nil || !bytes.Equal(got, reply)) {
				t.Fatalf("%q is whole: ReadReply returns %q, %v", reply, got, err)
			}
			if err == nil && !bytes.HasPrefix(reply, got) {
				t.Fatalf("%q: ReadReply returns %q", reply, got)
			}
			if whole {
				checkElements(t, reply)
			}
			if whole && resp2 && Plain(reply) {
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
