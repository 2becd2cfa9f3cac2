package locks_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestResetBehindPipeline checks that the locks of a reset connection run out, even when unread
// pipelined bytes behind a blocked command hide the reset (R28).
func TestResetBehindPipeline(t *testing.T) {
	for _, behind := range []int{1 << 10, 400 << 10} {
		redis := redistest.Start(t)
		l := proxytest.Start(t, []string{redis.Addr})
		holder := l.Dial(t)
		proxytest.Token(t, holder, "b")
		conn, err := net.Dial("tcp", l.Addr)
		if err != nil {
			t.Fatal(err)
		}
		client := redistest.NewClient(conn)
		proxytest.Token(t, client, "a")
		raw := redistest.Command("LOCK.ACQUIRE", "b", "BLOCK", "0") +
			strings.Repeat(redistest.Command("PING"), behind/14)
		if err := client.Send(raw); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "it waits", func() bool { return l.Locks.Stats().Waiters == 1 })
		_ = conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
		proxytest.Eventually(t, "the session ends", func() bool { return l.Clients() == 1 })
		if redis.Client().Exists(t.Context(), "a").Val() == 0 {
			t.Errorf("%d bytes behind: released after a reset", behind)
		}
	}
}

// TestClosedBehindPipeline checks that a plain close in the same state releases the locks soon.
func TestClosedBehindPipeline(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	holder, client := l.Dial(t), l.Dial(t)
	proxytest.Token(t, holder, "b")
	proxytest.Token(t, client, "a")
	raw := redistest.Command("LOCK.ACQUIRE", "b", "BLOCK", "0") +
		strings.Repeat(redistest.Command("SET", "after", "1"), 10_000)
	if err := client.Send(raw); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it waits", func() bool { return l.Locks.Stats().Waiters == 1 })
	client.Close()
	proxytest.Eventually(t, "a is free", func() bool { return redis.Client().Exists(t.Context(), "a").Val() == 0 })
	holder.Want(t, ":0\r\n", "EXISTS", "after")
}

// TestUnknownOutcomeKeepsTheLock checks that neither QUIT nor RESET frees a lock while Redis may
// still run a command of a lost connection (R16).
func TestUnknownOutcomeKeepsTheLock(t *testing.T) {
	for _, last := range []string{"QUIT", "RESET"} {
		t.Run(last, func(t *testing.T) {
			redis, fault := proxytest.Faulty(t)
			l := proxytest.Start(t, []string{fault.Addr()})
			client := l.Dial(t)
			client.Want(t, "+OK\r\n", "SET", "stock", "7")
			proxytest.Token(t, client, "order")
			late := fault.HoldBefore(faultproxy.Named("SET"))
			if err := client.Send(redistest.Command("SET", "stock", "6") + redistest.Command(last)); err != nil {
				t.Fatal(err)
			}
			if err := late.Await(5 * time.Second); err != nil {
				t.Fatal(err)
			}
			fault.Cut(faultproxy.RST)
			for _, wanted := range []string{"-UPSTREAMLOST ", "+"} {
				if got, err := client.Read(); !strings.HasPrefix(got, wanted) {
					t.Fatalf("got %q %v, want %q", got, err, wanted)
				}
			}
			client.Close()
			proxytest.Eventually(t, "the session ends", func() bool { return l.Clients() == 0 })
			if redis.Client().Exists(t.Context(), "order").Val() == 0 {
				t.Error("released although the SET may still come")
			}
		})
	}
}

// TestAcquireRightAfterReset checks that a release by RESET never ends the hold of the next acquire
// (R11).
func TestAcquireRightAfterReset(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	for range 100 {
		client := l.Dial(t)
		acquire := redistest.Command("LOCK.ACQUIRE", "k", "OWNER", "x", "BLOCK", "5000")
		if err := client.Send(acquire + redistest.Command("RESET") + acquire); err != nil {
			t.Fatal(err)
		}
		first, _ := client.Read()
		reset, _ := client.Read()
		second, err := client.Read()
		if err != nil || first[0] != ':' || reset != "+RESET\r\n" || second[0] != ':' || first == second {
			t.Fatalf("got %q %q %q %v", first, reset, second, err)
		}
		client.Want(t, ":1\r\n", "EXISTS", "k")
		client.Want(t, ":1\r\n", "LOCK.RELEASE", "k", "OWNER", "x")
		client.Close()
	}
}
