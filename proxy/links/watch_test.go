package links

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leash/proxy/dial"
	"leash/proxy/resp"
)

// forgetful is a Redis behind a firewall that forgets connections when the test asks it to.
type forgetful struct {
	addr    string
	seen    atomic.Int64  // connections
	forgets atomic.Int64  // that many of the first connections get no answer
	refuses atomic.Bool   // new connections end at once
	late    chan struct{} // closed when ECHO late is answered
}

func startForgetful(t *testing.T) *forgetful {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{addr: ln.Addr().String(), late: make(chan struct{})}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			number := f.seen.Add(1)
			if f.refuses.Load() {
				conn.Close()
				continue
			}
			go f.serve(conn, number)
		}
	}()
	t.Cleanup(func() { ln.Close() })
	return f
}

func (f *forgetful) serve(conn net.Conn, number int64) {
	defer conn.Close()
	for r := bufio.NewReader(conn); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if line[0] != '*' && line[0] != '$' && number > f.forgets.Load() {
			switch strings.TrimSpace(line) {
			case "PING":
				_, _ = io.WriteString(conn, "+PONG\r\n")
			case "SELECT":
				_, _ = io.WriteString(conn, "+OK\r\n")
			case "late":
				<-f.late
				fallthrough
			case "soon":
				_, _ = io.WriteString(conn, "+ok\r\n")
			}
		}
	}
}

// TestForgottenConnections checks that scripts go on over new connections soon after a firewall has
// forgotten all old ones. The old ones end after the upstream time-out, and the new ones stay.
func TestForgottenConnections(t *testing.T) {
	f := startForgetful(t)
	n := startWith(t, f.addr, dial.Config{UpstreamTimeout: 20 * time.Second}, Hooks{})
	results := make(chan result, 3)
	old, fresh := n.Link(dial.Lane{}), n.Link(dial.Lane{DB: 1})
	submit(old, results, "ECHO", "soon")
	next(t, results)
	script := func() error {
		_, _, err := n.Script(time.Now().Add(time.Second), nil, 0, false, resp.AppendCommand(nil, "ECHO", "soon"), nil)
		return err
	}
	if err := script(); err != nil {
		t.Fatal(err)
	}
	f.forgets.Store(f.seen.Load())
	submit(old, results, "SET", "soon")
	began := time.Now()
	for script() != nil {
		if time.Since(began) > 15*time.Second {
			t.Fatal("scripts get no answer, but new connections would bring one")
		}
		time.Sleep(time.Millisecond)
	}
	for !n.Usable() {
		if time.Since(began) > 15*time.Second {
			t.Fatal("the node counts as silent, but it answers on new connections")
		}
		time.Sleep(time.Millisecond)
	}
	submit(fresh, results, "SET", "late")
	if r := next(t, results); r.name != "SET soon" || !r.written || !errors.Is(r.cause, errSilent) {
		t.Errorf("the call on the old connection: %+v", r)
	}
	if took := time.Since(began); took < 15*time.Second {
		t.Errorf("the old connection has ended after %v", took)
	}
	close(f.late)
	if r := next(t, results); r.reply != "+ok\r\n" {
		t.Errorf("the call on the new connection: %+v", r)
	}
}

// TestRefusedBesideSilence: The old connections are silent, and new ones end at once. Leash tries a
// new one now and then.
func TestRefusedBesideSilence(t *testing.T) {
	t.Parallel()
	f := startForgetful(t)
	startWith(t, f.addr, dial.Config{UpstreamTimeout: time.Minute}, Hooks{})
	await := func(seen int64) {
		t.Helper()
		for began := time.Now(); f.seen.Load() < seen; time.Sleep(time.Millisecond) {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("Leash has opened %d connections, want %d", f.seen.Load(), seen)
			}
		}
	}
	await(1)
	f.refuses.Store(true)
	f.forgets.Store(1)
	await(2)
	time.Sleep(2 * time.Second) // the test is about this duration
	if n := f.seen.Load(); n > 10 {
		t.Errorf("Leash has tried %d connections in 2 s", n-1)
	}
}
