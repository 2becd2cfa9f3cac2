package upstream_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestAddressOfAnotherServer checks that Leash follows the address of a single Redis to the server
// that it leads to after a failover. The old server works on, as a replica. Locks are kept.
func TestAddressOfAnotherServer(t *testing.T) {
	t.Parallel()
	first, second := redistest.Start(t), redistest.Start(t)
	old, next := redistest.Connect(t, first.Addr), redistest.Connect(t, second.Addr)
	host, port, _ := net.SplitHostPort(first.Addr)
	next.Want("+OK\r\n", "REPLICAOF", host, port)
	proxytest.Eventually(t, "the second is a replica", func() bool { return strings.Contains(next.Do("ROLE"), "connected") })

	addr, turn := startChangingAddress(t, first.Addr)
	l := proxytest.Start(t, []string{addr}, func(o *proxytest.Options) { o.Locks.WatchdogTimeout = 10 * time.Second })
	writer, owner, transaction := l.Dial(t), l.Dial(t), l.Dial(t)
	writer.Want(t, "+OK\r\n", "SET", "k", "1")
	token := owner.Reply(t, "LOCK.ACQUIRE", "lock")
	inTransaction := func() string {
		transaction.Reply(t, "WATCH", "w")
		transaction.Reply(t, "MULTI")
		transaction.Reply(t, "SET", "w", "1")
		return transaction.Reply(t, "EXEC")
	}
	inTransaction()
	proxytest.Eventually(t, "the second has the lock", func() bool { return next.Do("EXISTS", "lock") == ":1\r\n" })

	next.Want("+OK\r\n", "REPLICAOF", "NO", "ONE")
	host, port, _ = net.SplitHostPort(second.Addr)
	old.Want("+OK\r\n", "REPLICAOF", host, port)
	tried := calls(t, first, "evalsha")
	proxytest.Eventually(t, "renewals reach the old one", func() bool { return calls(t, first, "evalsha") > tried+5 })
	turn(second.Addr)
	proxytest.Eventually(t, "a write reaches the second", func() bool { return writer.Reply(t, "SET", "k", "2") == "+OK\r\n" })
	proxytest.Eventually(t, "a transaction does", func() bool { return inTransaction() == "*1\r\n+OK\r\n" })
	if got := next.Do("GET", "k"); got != "$1\r\n2\r\n" {
		t.Errorf("the second has %q", got)
	}
	left := func() (ms int) {
		_, _ = fmt.Sscanf(next.Do("PTTL", "lock"), ":%d", &ms)
		return ms
	}
	before := left()
	proxytest.Eventually(t, "the lock is renewed at the second", func() bool { return left() > before })
	if record := next.Do("HGET", "lock", "leash"); !strings.Contains(record, "L1 "+token[1:len(token)-2]+" ") {
		t.Errorf("the token is %q, and the record %q", token, record)
	}
	owner.Want(t, ":1\r\n", "LOCK.RELEASE", "lock")
}

// startChangingAddress starts a port that forwards new connections to a target. turn changes the
// target, and leaves connections as they are, as a changed name does.
func startChangingAddress(t *testing.T, target string) (addr string, turn func(string)) {
	t.Helper()
	var to atomic.Value
	to.Store(target)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { ln.Close(); running.Wait() })
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to.Load().(string))
			if err != nil {
				c.Close()
				continue
			}
			pass := func(dst, src net.Conn) { io.Copy(dst, src); dst.Close(); src.Close() }
			running.Go(func() { pass(s, c) })
			running.Go(func() { pass(c, s) })
		}
	})
	return ln.Addr().String(), func(target string) { to.Store(target) }
}
