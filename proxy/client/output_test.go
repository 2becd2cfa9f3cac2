package client

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
)

// testOwner is the owner of a Conn in a test.
type testOwner struct {
	mu      sync.Mutex
	changed sync.Cond
	running sync.WaitGroup
	ended   bool // Go starts nothing
	dropped int  // bytes of output that were dropped
}

func (o *testOwner) Go(_ string, f func()) bool {
	if o.ended {
		return false
	}
	o.running.Go(f)
	return true
}

func (o *testOwner) Wrote() { o.changed.Broadcast() }

func (o *testOwner) OutputDropped(n int) {
	o.dropped += n
	o.changed.Broadcast()
}

// connect returns a Conn, its owner, and the other end of the connection.
func connect(t *testing.T) (*Conn, *testOwner, *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = peer.(*net.TCPConn).SetReadBuffer(64 << 10) // so that a few MiB fill the connection
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newConn(nc, nil, &Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	o := &testOwner{}
	o.changed.L = &o.mu
	t.Cleanup(func() {
		c.Close()
		peer.Close()
		o.running.Wait()
	})
	return c, o, peer.(*net.TCPConn)
}

// TestOutputOfSlowReader checks that Flush does not wait for a client that reads nothing, and that
// the client gets everything in order once it reads.
func TestOutputOfSlowReader(t *testing.T) {
	c, o, peer := connect(t)
	var out Output
	out.Init(c, o, &o.mu)
	var want []byte
	for i := range 64 {
		p := bytes.Repeat([]byte{byte(i)}, 256<<10)
		want = append(want, p...)
		o.mu.Lock()
		out.Append(p)
		first := out.ScheduleLocked()
		again := out.ScheduleLocked()
		o.mu.Unlock()
		if !first || again {
			t.Fatalf("scheduled: %v, and again: %v", first, again)
		}
		out.Flush()
	}
	o.mu.Lock()
	busy, left := out.BusyLocked(), out.Len()
	o.mu.Unlock()
	if !busy || left == 0 {
		t.Fatalf("busy %v with %d bytes, want output that waits", busy, left)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(peer, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the client got other bytes")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for out.BusyLocked() {
		o.changed.Wait()
	}
	if out.DroppedLocked() || o.dropped > 0 || !out.StalledSinceLocked().IsZero() {
		t.Errorf("after all was written: dropped %v, %d bytes", out.DroppedLocked(), o.dropped)
	}
}

// TestOutputIsDropped checks that the output of a socket that was shut is dropped once, whatever
// was going on.
func TestOutputIsDropped(t *testing.T) {
	for _, waiting := range []bool{false, true} {
		c, o, _ := connect(t)
		var out Output
		out.Init(c, o, &o.mu)
		if !waiting {
			c.Shut()
		}
		o.mu.Lock()
		for range 64 {
			out.Append(make([]byte, 256<<10))
		}
		o.mu.Unlock()
		out.Flush()
		c.Shut()
		o.mu.Lock()
		for out.BusyLocked() {
			o.changed.Wait()
		}
		if !out.DroppedLocked() || out.FailedLocked() == nil || out.Len() > 0 || o.dropped == 0 {
			t.Errorf("waiting %v: dropped %v with %v, %d bytes left, %d dropped", waiting, out.DroppedLocked(),
				out.FailedLocked(), out.Len(), o.dropped)
		}
		o.mu.Unlock()
		out.Flush() // does nothing
	}
}

// TestOutputWithoutGoroutines checks that a full socket of a stopped server leaves no writer
// behind.
func TestOutputWithoutGoroutines(t *testing.T) {
	c, o, _ := connect(t)
	o.ended = true
	var out Output
	out.Init(c, o, &o.mu)
	o.mu.Lock()
	for range 64 {
		out.Append(make([]byte, 256<<10))
	}
	o.mu.Unlock()
	out.Flush()
	if o.mu.Lock(); out.writing {
		t.Error("a writer is said to run")
	}
	o.mu.Unlock()
}
