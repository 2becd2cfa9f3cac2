package redistest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// replying returns a Client whose server has sent raw, in pieces of one byte, and closed.
func replying(t *testing.T, raw string) *Client {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer ln.Close()
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for i := range len(raw) {
			if _, err := io.WriteString(conn, raw[i:i+1]); err != nil {
				return
			}
		}
	})
	c, err := Dial(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		wg.Wait()
	})
	return c
}

func TestReadReturnsWholeReplies(t *testing.T) {
	replies := []string{
		"+OK\r\n", "-ERR " + strings.Repeat("long", 3000) + "\r\n", "$-1\r\n", "$4\r\n\r\n\r\n\r\n", "*-1\r\n", "*0\r\n",
		"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", "%1\r\n+k\r\n~2\r\n#t\r\n_\r\n", "=7\r\ntxt:abc\r\n", "!5\r\nERR x\r\n", ",inf\r\n", "(1\r\n",
		">2\r\n+invalidate\r\n_\r\n", "|1\r\n+ttl\r\n:3\r\n*1\r\n:9\r\n",
	}
	c := replying(t, strings.Join(replies, ""))
	for _, want := range replies {
		if got, err := c.Read(); got != want || err != nil {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	if got, err := c.Read(); got != "" || err != io.EOF {
		t.Fatalf("got %q, %v; want io.EOF", got, err)
	}
}

func TestReadReturnsThePartThatCame(t *testing.T) {
	for _, raw := range []string{"+OK", "+OK\r", "$3\r\nab", "*2\r\n:1\r\n", "%1\r\n+k\r\n"} {
		if got, err := replying(t, raw).Read(); got != raw || err != io.ErrUnexpectedEOF {
			t.Errorf("got %q, %v; want %q and io.ErrUnexpectedEOF", got, err, raw)
		}
	}
}

func TestReadRefusesGarbage(t *testing.T) {
	for _, raw := range []string{"hello\r\n", "$x\r\n", "\r\n", "+a\n", "$9223372036854775807\r\n"} {
		if got, err := replying(t, raw).Read(); err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
			t.Errorf("%q: got %q, %v; want it refused", raw, got, err)
		}
	}
}

func TestCommand(t *testing.T) {
	if got, want := Command("SET", "", "\r\n"), "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
