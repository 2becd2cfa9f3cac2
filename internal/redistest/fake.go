package redistest

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"leash/proxy/resp"
)

// NoReply is for a command of a Fake that gets no reply.
const NoReply = "no reply"

// Fake answers commands by a function of the test. An empty reply closes the connection.
type Fake struct {
	Addr  string
	Ping  func() string // +PONG if nil
	Ended atomic.Int32  // connections

	answer func(args []string) string

	mu   sync.Mutex
	seen []string
}

// StartFake starts a Fake, which ends with the test.
func StartFake(t testing.TB, answer func(args []string) string) *Fake {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Fake{Addr: ln.Addr().String(), answer: answer}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(t.Context(), func() { conn.Close() })
			serving.Go(func() { defer stop(); defer conn.Close(); f.serve(conn); f.Ended.Add(1) })
		}
	})
	t.Cleanup(func() { ln.Close(); serving.Wait() })
	return f
}

func (f *Fake) serve(conn net.Conn) {
	p := resp.Parser{Limits: resp.Limits{MaxBulk: 1 << 30, MaxArgs: 1 << 20}}
	r := bufio.NewReader(conn)
	var buf []byte
	for {
		b, err := r.ReadByte()
		if err != nil {
			return
		}
		buf = append(buf, b)
		if buf[0] != '*' {
			return // inline: the embedded Redis takes that for an error too
		}
		cmd, n, err := p.Next(buf)
		if err != nil {
			return
		}
		if n == 0 {
			continue
		}
		var args []string
		for _, a := range cmd.Args {
			args = append(args, string(a))
		}
		buf = buf[n:]
		reply := f.reply(args)
		switch reply {
		case "":
			return
		case NoReply:
			continue
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func (f *Fake) reply(args []string) string {
	if args[0] == "PING" && f.Ping != nil {
		return f.Ping()
	}
	if args[0] == "PING" {
		return "+PONG\r\n"
	}
	f.mu.Lock()
	f.seen = append(f.seen, strings.Join(args, " "))
	f.mu.Unlock()
	return f.answer(args)
}

// Commands are all commands but PING, in order, with "|" between them.
func (f *Fake) Commands() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.seen, "|")
}

// Echo answers with the last argument.
func Echo(args []string) string { return string(resp.AppendBulk(nil, args[len(args)-1])) }
