package links_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"leash/proxy/resp"
)

// fakeNode is a cluster node whose replies come from a function of the test. An empty reply closes
// the connection.
type fakeNode struct {
	addr  string
	calls atomic.Int64 // commands that the function answered
	ln    net.Listener
}

func newFakeNode(t *testing.T) *fakeNode {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &fakeNode{addr: ln.Addr().String(), ln: ln}
}

// ranges returns a reply to CLUSTER SLOTS in which the nodes share all slots evenly.
func ranges(nodes ...*fakeNode) string {
	b := resp.AppendArray(nil, len(nodes))
	for i, n := range nodes {
		host, port, _ := net.SplitHostPort(n.addr)
		b = resp.AppendArray(b, 3)
		b = resp.AppendInt(b, int64(i*16384/len(nodes)))
		b = resp.AppendInt(b, int64((i+1)*16384/len(nodes)-1))
		b = resp.AppendArray(b, 3)
		b = resp.AppendBulk(b, host)
		b = append(b, ":"+port+"\r\n"...)
		b = resp.AppendBulk(b, strings.Repeat(fmt.Sprint(i), 40))
	}
	return string(b)
}

// start serves until the test ends.
func (f *fakeNode) start(t *testing.T, slots string, answer func(args []string) string) {
	var serving sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	serving.Go(func() {
		for {
			conn, err := f.ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				f.serve(conn, slots, answer)
			})
		}
	})
	t.Cleanup(func() { cancel(); f.ln.Close(); serving.Wait() })
}

func (f *fakeNode) serve(conn net.Conn, slots string, answer func(args []string) string) {
	r := bufio.NewReader(conn)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		reply := ""
		switch strings.ToUpper(strings.Join(args, " ")) {
		case "PING":
			reply = resp.Pong
		case "ASKING":
			reply = resp.OK
		case "INFO":
			reply = string(resp.AppendBulk(nil, "redis_version:7.0.15\r\nredis_mode:cluster\r\n"))
		case "CLUSTER SLOTS":
			reply = slots
		default:
			if reply = "-ERR no\r\n"; !strings.Contains("CLUSTER COMMAND HELLO CLIENT CONFIG",
				strings.ToUpper(args[0])) {
				f.calls.Add(1)
				reply = answer(args)
			}
		}
		if _, err := io.WriteString(conn, reply); err != nil || reply == "" {
			return
		}
	}
}

func readCommand(r *bufio.Reader) (args []string, err error) {
	p := resp.Parser{Limits: resp.Limits{MaxBulk: 1 << 30, MaxArgs: 1 << 20}}
	var buf []byte
	for {
		b, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		buf = append(buf, b)
		cmd, n, err := p.Next(buf)
		if err != nil || n > 0 {
			for _, a := range cmd.Args {
				args = append(args, string(a))
			}
			return args, err
		}
	}
}
