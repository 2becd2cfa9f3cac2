package faultproxy_test

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
)

// TestFreezeOneWay freezes one direction. A request then arrives without a reply, or does not
// arrive. Both continue after Thaw.
func TestFreezeOneWay(t *testing.T) {
	s, p := start(t)
	for _, row := range []struct {
		way  faultproxy.Way
		runs bool
	}{{faultproxy.ToTarget, false}, {faultproxy.ToClient, true}} {
		c, direct := dial(t, p.Addr()), dial(t, s.Addr)
		mustDo(t, direct, "+OK\r\n", "SET", "n", "0")
		mustDo(t, c, "+PONG\r\n", "PING")
		p.FreezeWay(row.way)
		mustSend(t, c, cmd("INCR", "n"))
		if row.runs {
			eventually(t, "the command runs", func() bool { reply, _ := direct.Do("GET", "n"); return reply == "$1\r\n1\r\n" })
		}
		mustBeSilent(t, c)
		if !row.runs {
			mustDo(t, direct, "$1\r\n0\r\n", "GET", "n")
		}
		p.Thaw()
		mustRead(t, c, ":1\r\n")
	}
}

// target accepts connections and hands them out.
func target(t *testing.T) (addr string, accepted <-chan *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ch := make(chan *net.TCPConn, 4)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			ch <- conn.(*net.TCPConn)
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String(), ch
}

// TestResetSideLeavesTheOtherSideHalfOpen: one side gets a reset and the other gets nothing. When
// the other side closes, the connection ends.
func TestResetSideLeavesTheOtherSideHalfOpen(t *testing.T) {
	addr, accepted := target(t)
	for _, side := range []faultproxy.Side{faultproxy.ClientSide, faultproxy.TargetSide} {
		p := before(t, addr)
		c := dial(t, p.Addr())
		mustSend(t, c, cmd("PING"))
		conn := <-accepted
		there := redistest.NewClient(conn)
		t.Cleanup(func() { there.Close() })
		mustRead(t, there, cmd("PING"))
		if n := p.ResetSide(side); n != 1 {
			t.Fatalf("left %d connections half-open, want 1", n)
		}
		gone, left := c, there
		if side == faultproxy.TargetSide {
			gone, left = there, c
		}
		mustEnd(t, gone, syscall.ECONNRESET)
		for range 3 {
			mustSend(t, left, cmd("PING"))
		}
		mustBeSilent(t, left)
		if p.ResetSide(side) != 0 {
			t.Error("reset the same connection twice")
		}
		left.Close()
		eventually(t, "the connection ends", func() bool { return p.Stats().Open == 0 })
	}
}

// TestCutEndsHalfOpenConnections: Cut ends the open side of a half-open connection, frozen or not.
func TestCutEndsHalfOpenConnections(t *testing.T) {
	_, p := start(t)
	for _, frozen := range []bool{false, true} {
		c := dial(t, p.Addr())
		mustDo(t, c, "+PONG\r\n", "PING")
		p.ResetSide(faultproxy.TargetSide)
		if frozen {
			p.Freeze()
		}
		mustBeSilent(t, c)
		p.Cut(faultproxy.FIN)
		mustEnd(t, c, io.EOF)
		p.Thaw()
	}
}

// TestThrottle: a reply arrives complete, and takes the time that its bytes need at that rate.
func TestThrottle(t *testing.T) {
	_, p := start(t)
	c := dial(t, p.Addr())
	value := string(make([]byte, 2000))
	mustDo(t, c, "+OK\r\n", "SET", "k", value)
	p.Throttle(10_000)
	began := time.Now()
	mustDo(t, c, "$2000\r\n"+value+"\r\n", "GET", "k")
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("2000 bytes at 10,000 a second took %v", took)
	}
	p.Throttle(0)
	mustDo(t, c, "$2000\r\n"+value+"\r\n", "GET", "k")
}
