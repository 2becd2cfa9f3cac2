package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"leash/internal/embedded"
)

func testLoad(addr string) Load {
	return Load{
		Routes: []Route{{Addr: addr}}, Clients: 5, Pipeline: 1, ValueSize: 64, Keys: 50, Sets: 50,
		Warmup: 20 * time.Millisecond, Round: 50 * time.Millisecond,
	}
}

// TestLoad runs all kinds of loads against a server that answers correctly.
func TestLoad(t *testing.T) {
	s, err := embedded.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, c := range []struct {
		name   string
		change func(*Load)
	}{
		{"unpipelined", func(*Load) {}},
		{"pipelined", func(l *Load) { l.Pipeline = 16 }},
		{"only get", func(l *Load) { l.Sets = 0 }},
		{"only set", func(l *Load) { l.Sets = 100 }},
		{"tiny values", func(l *Load) { l.ValueSize = 1 }},
		{"batches larger than any socket buffer", func(l *Load) { l.ValueSize, l.Pipeline, l.Clients, l.Keys = 1<<20, 8, 2, 4 }},
		{"one key a client", func(l *Load) { l.Keys = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLoad(s.Addr())
			c.change(&l)
			marks := 0
			sample, err := l.Run(t.Context(), func() error { marks++; return nil })
			if err != nil {
				t.Fatal(err)
			}
			if marks != 2 || sample.Elapsed < l.Round || sample.Commands != l.Pipeline*int(sample.latency.Total) {
				t.Errorf("got %d marks, %v, %d commands in %d batches", marks, sample.Elapsed, sample.Commands, sample.latency.Total)
			}
		})
	}
}

// fakeServer answers each read with the result of answer, and closes when that is empty.
func fakeServer(t *testing.T, answer func(request string) string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	serve := func(conn net.Conn) {
		defer conn.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := conn.Read(buf)
			reply := answer(string(buf[:n]))
			if err != nil || reply == "" {
				return
			}
			if _, err := io.WriteString(conn, reply); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return ln.Addr().String()
}

// TestLoadChecksReplies: the errors say which reply came and which was expected.
func TestLoadChecksReplies(t *testing.T) {
	ok := func(request string) string {
		if strings.Contains(request, "SET") {
			return "+OK\r\n"
		}
		return ""
	}
	for _, c := range []struct {
		name   string
		answer func(request string) string
		want   string
	}{
		{"an error", func(string) string { return "-OOM no more\r\n" }, `got "-OOM no more\r\n", want "+OK\r\n"`},
		{"a reply too many", func(string) string { return "+OK\r\n+OK\r\n" }, `got "+OK\r\n", want ""`},
		{"an old value", func(request string) string {
			if s := ok(request); s != "" {
				return s
			}
			return "$64\r\n" + strings.Repeat("0", 64) + "\r\n"
		}, `got "` + strings.Repeat("0", 64)},
		{"a nil", func(request string) string {
			if s := ok(request); s != "" {
				return s
			}
			return "$-1\r\n"
		}, `got "$-1\r\n", want "$64\r\n`},
		{"the end", ok, "the connection was closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLoad(fakeServer(t, c.answer))
			l.Round = 10 * time.Second // the error comes long before
			_, err := l.Run(t.Context(), func() error { return nil })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	l := testLoad(fakeServer(t, func(string) string { cancel(enough); return "+" }))
	if _, err := l.Run(ctx, func() error { return nil }); !errors.Is(err, enough) {
		t.Errorf("got %v, want %v", err, enough)
	}
}

func TestLoadWithoutServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	if _, err := testLoad(addr).Run(t.Context(), func() error { return nil }); err == nil {
		t.Error("no error")
	}
}

// TestStall: a tick detects that no more replies come.
func TestStall(t *testing.T) {
	now := time.Now()
	r := &running{Load: testLoad(""), phase: draining, lastReply: now, waiting: 3}
	if err := r.tick(now.Add(stallTimeout)); err != nil {
		t.Errorf("too early: %v", err)
	}
	if got, want := fmt.Sprint(r.tick(now.Add(stallTimeout+1))), "no reply for 10s, 3 clients wait"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
