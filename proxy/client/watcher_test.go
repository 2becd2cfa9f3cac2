package client

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// TestWatcherNoticesEndings checks that a watcher tells of each ending of a connection, and that
// Read returns what the client sent before. The endings need no bytes that Gather waits for.
func TestWatcherNoticesEndings(t *testing.T) {
	for i := range 4 {
		reset := i%2 == 1
		c, o, peer := connect(t)
		if i >= 2 {
			c.Gather(1 << 14)
		}
		gone := make(chan struct{})
		w := &Watcher{Conn: c, Owner: o, Gone: func() { close(gone) }}
		w.Start()
		w.Start() // does nothing
		if reset {
			_ = peer.SetLinger(0)
		} else if _, err := peer.Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		peer.Close()
		<-gone
		if err := w.Stop(); err == nil || errors.Is(err, io.EOF) == reset {
			t.Errorf("reset %v: the connection ended with %v", reset, err)
		}
		if reset {
			continue
		}
		var got []byte
		for c.HasAhead() {
			var p [4]byte
			n, err := c.Read(p[:])
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, p[:n]...)
		}
		if string(got) != "PING\r\n" {
			t.Errorf("got %q", got)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("after that, got %d bytes and %v", n, err)
		}
	}
}

// TestWatcherStops checks that a connection can be read and watched again after a watch.
func TestWatcherStops(t *testing.T) {
	c, o, peer := connect(t)
	idle := &Watcher{Conn: c, Owner: o}
	if err := idle.Stop(); err != nil || idle.Started() {
		t.Errorf("without a start: %v, started %v", err, idle.Started())
	}
	var want []byte
	for range 3 {
		w := &Watcher{Conn: c, Owner: o, Gone: func() { t.Error("the client is said to have gone") }}
		w.Start()
		p := bytes.Repeat([]byte("x"), 10000)
		want = append(want, p...)
		if _, err := peer.Write(p); err != nil {
			t.Fatal(err)
		}
		if err := w.Stop(); err != nil || !w.Started() {
			t.Errorf("%v, started %v", err, w.Started())
		}
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// TestWatcherReadsLittle checks that a watcher stops reading at its limit.
func TestWatcherReadsLittle(t *testing.T) {
	c, o, peer := connect(t)
	c.ahead = make([]byte, aheadMax-5)
	w := &Watcher{Conn: c, Owner: o, Gone: func() { t.Error("the client is said to have gone") }}
	if _, err := peer.Write([]byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	w.Start()
	if err := w.Stop(); err != nil {
		t.Fatal(err)
	}
	if len(c.ahead) > aheadMax {
		t.Errorf("read %d bytes ahead", len(c.ahead))
	}
	got := make([]byte, aheadMax+5)
	if _, err := io.ReadFull(c, got); err != nil || string(got[aheadMax-5:]) != "0123456789" {
		t.Errorf("got %q, %v", got[aheadMax-5:], err)
	}
}
