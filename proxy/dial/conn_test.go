package dial

import (
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"

	"leash/proxy/resp"
)

// scriptedConn returns a connection whose other end sends the pieces one by one and closes.
func scriptedConn(t *testing.T, pieces ...string) *Conn {
	t.Helper()
	conn, peer := net.Pipe()
	t.Cleanup(func() { conn.Close(); peer.Close() })
	go func() { // ends with the connection
		defer peer.Close()
		for _, piece := range pieces {
			if _, err := io.WriteString(peer, piece); err != nil {
				return
			}
		}
	}()
	return newConn(conn)
}

func TestConnReceivesWholeReplies(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 300_000)
	stream := "+OK\r\n$300000\r\n" + large + "\r\n*2\r\n$1\r\na\r\n:-1\r\n$-1\r\n-ERR no\r\n"
	c := scriptedConn(t, stream[:7], stream[7:9], stream[9:150_000], stream[150_000:], "*2\r\n:1\r\n")
	for _, want := range []any{"OK", large, []any{"a", int64(-1)}, ErrNull, resp.ReplyError("ERR no"), io.EOF} {
		var got any
		got, err := c.Receive()
		if err != nil {
			got = err
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %.50v, want %.50v", got, want)
		}
	}
}

// TestConnRefusesInvalidReplies checks that nothing of such a reply is returned, and that an
// announced length or deep nesting takes no memory.
func TestConnRefusesInvalidReplies(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		":\n", "$9999999999999\r\n", "*-7\r\n", "%1\r\n+a\r\n:1\r\n", ">1\r\n+a\r\n", "|1\r\n+a\r\n+b\r\n:1\r\n",
		":99999999999999999999\r\n", "$2\r\nabcd", strings.Repeat("*1\r\n", 100_000) + ":1\r\n",
		"*2\r\n-ERR no\r\n:1\r\n",
	} {
		c := scriptedConn(t, "+OK\r\n", bad)
		if got, err := c.Receive(); got != "OK" || err != nil {
			t.Errorf("%.30q: got %v, %v before it", bad, got, err)
		}
		if got, err := c.Receive(); !errors.Is(err, resp.ErrFrame) {
			t.Errorf("%.30q: got %v, %v, want ErrFrame", bad, got, err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sent, marks string
		ok          bool
	}{
		{"+OK\r\n", "+", true}, {"-ERR no\r\n", "+", true}, {"%0\r\n", "%*", true}, {":1\r\n", "", true},
		{":1\r\n", "+", false}, {"+OK\r\n+OK\r\n", "+", false}, {":\n", "", false}, {"$9999999999999\r\n", "", false},
		{"+" + strings.Repeat("a", 2*maxSetUpReply) + "\r\n", "", false}, {"$5\r\nab", "", false},
	} {
		conn, peer := net.Pipe()
		t.Cleanup(func() { conn.Close(); peer.Close() })
		go func() { // ends with the connection
			defer peer.Close()
			if _, err := io.ReadFull(peer, make([]byte, len(PingRequest))); err == nil {
				_, _ = io.WriteString(peer, c.sent)
			}
		}()
		reply, err := RoundTrip(t.Context(), conn, PingRequest, c.marks)
		if got := string(reply); c.ok && (got != c.sent || err != nil) || !c.ok && (got != "" || err == nil) {
			t.Errorf("%.30q: got %.30q, %v", c.sent, got, err)
		}
		conn.Close()
	}
}
