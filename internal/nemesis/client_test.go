package main

import (
	"net"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestClientEnded: a client sees the end of a connection without reading from it, both after a
// close and after a reset.
func TestClientEnded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, reset := range []bool{false, true} {
		conn, err := redistest.Dial(ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		c := &client{Client: conn}
		other, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if c.ended() {
			t.Error("the connection is open: got an end")
		}
		if reset {
			other.(*net.TCPConn).SetLinger(0)
		}
		other.Close()
		for until := time.Now().Add(5 * time.Second); !c.ended(); time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("the other side ended the connection (reset: %v): got no end", reset)
			}
		}
	}
}
