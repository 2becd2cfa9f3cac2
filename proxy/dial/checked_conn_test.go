package dial

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/proxy/resp"
)

// scriptedConn returns a TCP connection whose other end sends the pieces one by one and closes.
func scriptedConn(t *testing.T, pieces ...string) net.Conn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); peer.Close() })
	go func() { // ends with the connection
		for _, piece := range pieces {
			if _, err := io.WriteString(peer, piece); err != nil {
				return
			}
		}
		_ = peer.(*net.TCPConn).CloseWrite()
	}()
	return conn
}

func TestGoRedisGetsWholeReplies(t *testing.T) {
	large := "$300000\r\n" + strings.Repeat("x", 300_000) + "\r\n"
	stream := "+OK\r\n" + large + "*2\r\n$1\r\na\r\n:-1\r\n" + "$-1\r\n"
	got, err := io.ReadAll(newCheckedConn(scriptedConn(t, stream[:7], stream[7:9], stream[9:150_000],
		stream[150_000:], "*2\r\n:1\r\n")))
	if string(got) != stream || err != nil {
		t.Errorf("got %d bytes, %v, want the %d of the whole replies", len(got), err, len(stream))
	}
}

func TestGoRedisGetsNoPartOfInvalidReply(t *testing.T) {
	for _, bad := range []string{
		":\n", "$9999999999999\r\n", "*-7\r\n", "%1\r\n+a\r\n:1\r\n", ">1\r\n+a\r\n", "|1\r\n+a\r\n+b\r\n:1\r\n",
		":99999999999999999999\r\n", "$2\r\nabcd",
		strings.Repeat("*1\r\n", 100_000) + ":1\r\n", "*2\r\n-ERR no\r\n:1\r\n",
	} {
		c := newCheckedConn(scriptedConn(t, "+OK\r\n", bad))
		got, err := io.ReadAll(c)
		if !strings.HasPrefix("+OK\r\n", string(got)) || !errors.Is(err, resp.ErrFrame) {
			t.Errorf("%.30q: got %.30q, %v, want ErrFrame behind what came before", bad, got, err)
		}
		if _, err := c.Conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%.30q: the connection goes on: %v", bad, err)
		}
	}
}

// TestGoRedisSurvivesAnAnnouncedLength checks that a huge announced length, such as
// "$9999999999999", ends the connection and not the process. go-redis would allocate the memory.
func TestGoRedisSurvivesAnAnnouncedLength(t *testing.T) {
	for _, reply := range []string{"$9999999999999\r\n", "*2147483647\r\n",
		strings.Repeat("*1\r\n", 1<<20) + ":1\r\n"} {
		d := New(Config{}, false, nil, slog.New(slog.DiscardHandler))
		c := redis.NewClient(&redis.Options{
			Addr: fakeNode(t, reply), Dialer: d.DialOwn, Protocol: 2, DisableIdentity: true, MaxRetries: -1,
			ReadTimeout: time.Second, DialerRetries: 1,
		})
		got, err := c.EvalSha(context.Background(), strings.Repeat("0", 40), []string{"k"}).Result()
		if err == nil {
			t.Errorf("%.20q: got %v, want an error", reply, got)
		}
		c.Close()
	}
}

// fakeNode answers EVALSHA with reply and everything else with an error.
func fakeNode(t *testing.T, reply string) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() { // ends with the listener
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go answerAll(conn, reply)
		}
	}()
	return ln.Addr().String()
}

// answerAll answers each read like one command until the connection ends.
func answerAll(conn net.Conn, reply string) {
	defer conn.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		answer := "-ERR unknown command\r\n"
		if strings.Contains(strings.ToUpper(string(buf[:n])), "EVALSHA") {
			answer = reply
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}
