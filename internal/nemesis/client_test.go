package main

import (
	"net"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestClientEnded: the end of a connection is seen without reading from it, however it came.
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
			t.Error("got an end of a connection that is there")
		}
		if reset {
			other.(*net.TCPConn).SetLinger(0)
		}
		other.Close()
		for until := time.Now().Add(5 * time.Second); !c.ended(); time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("no end was seen, by a reset: %v", reset)
			}
		}
	}
}
