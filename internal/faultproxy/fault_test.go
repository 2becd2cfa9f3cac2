package faultproxy_test

import (
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
)

func TestDropBeforeIsNotExecuted(t *testing.T) {
	s, p := start(t)
	f := p.DropBefore(faultproxy.Named("set"))
	c := dial(t, p.Addr())
	mustSend(t, c, cmd("INCR", "n")+cmd("SET", "k", "v")+cmd("INCR", "n"))
	mustRead(t, c, ":1\r\n")
	mustEnd(t, c, io.EOF)
	mustTrigger(t, f)
	direct := dial(t, s.Addr)
	mustDo(t, direct, "$-1\r\n", "GET", "k")
	mustDo(t, direct, "$1\r\n1\r\n", "GET", "n") // what followed was not forwarded either
	mustDo(t, dial(t, p.Addr()), "+OK\r\n", "SET", "k", "v")
	if f.Count() != 1 {
		t.Errorf("triggered %d times, want once", f.Count())
	}
	eventually(t, "one drop is counted", func() bool { return p.Stats().Dropped == 1 })
}

func TestDropAfterIsExecutedAndNotAnswered(t *testing.T) {
	s, p := start(t)
	f := p.DropAfter(faultproxy.Named("SET"), faultproxy.EndBy(faultproxy.RST))
	c := dial(t, p.Addr())
	mustDo(t, c, ":1\r\n", "INCR", "n")
	mustSend(t, c, cmd("SET", "k", "v")+cmd("INCR", "n"))
	mustEnd(t, c, syscall.ECONNRESET)
	mustTrigger(t, f)
	direct := dial(t, s.Addr)
	mustDo(t, direct, "$1\r\nv\r\n", "GET", "k")
	mustDo(t, direct, "$1\r\n1\r\n", "GET", "n")
}

func TestDropAfterDeliversEarlierReplies(t *testing.T) {
	_, p := start(t)
	p.DropAfter(faultproxy.Holding("last"), faultproxy.Always())
	for range 50 {
		c := dial(t, p.Addr())
		mustSend(t, c, strings.Repeat(cmd("PING"), 30)+cmd("ECHO", "last"))
		for range 30 {
			mustRead(t, c, "+PONG\r\n")
		}
		mustEnd(t, c, io.EOF)
	}
}

// TestDropAtEverySplit sends one pipeline in two parts, split at each byte.
func TestDropAtEverySplit(t *testing.T) {
	s, p := start(t)
	p.DropAfter(faultproxy.Named("RPUSH"), faultproxy.Always())
	all := cmd("HELLO", "3") + cmd("DEL", "l") + "echo x\r\n" + cmd("RPUSH", "l", "a") + cmd("DEL", "l")
	direct := dial(t, s.Addr)
	for i := 1; i < len(all); i++ {
		c := dial(t, p.Addr())
		mustSend(t, c, all[:i])
		mustSend(t, c, all[i:])
		if got, err := c.Read(); err != nil || !strings.HasPrefix(got, "%7\r\n") {
			t.Fatalf("split at %d: got %q, %v", i, got, err)
		}
		if got, err := c.Read(); err != nil || got[0] != ':' {
			t.Fatalf("split at %d: got %q, %v", i, got, err)
		}
		mustRead(t, c, "$1\r\nx\r\n")
		mustEnd(t, c, io.EOF)
		mustDo(t, direct, ":1\r\n", "LLEN", "l")
	}
}

func TestHoldBeforeExecutesLate(t *testing.T) {
	s, p := start(t)
	f := p.HoldBefore(faultproxy.Named("SET"))
	c, other := dial(t, p.Addr()), dial(t, p.Addr())
	mustSend(t, c, cmd("PING")+cmd("SET", "k", "v")+cmd("PING"))
	mustRead(t, c, "+PONG\r\n")
	mustTrigger(t, f)
	mustBeSilent(t, c)
	mustDo(t, other, "$-1\r\n", "GET", "k") // others go on
	f.Release()
	mustRead(t, c, "+OK\r\n")
	mustRead(t, c, "+PONG\r\n")
	mustDo(t, dial(t, s.Addr), "$1\r\nv\r\n", "GET", "k")
}

func TestHeldCommandOutlivesItsClient(t *testing.T) {
	s, p := start(t)
	f := p.HoldBefore(faultproxy.Named("SET"))
	c := dial(t, p.Addr())
	mustSend(t, c, cmd("SET", "k", "late"))
	mustTrigger(t, f)
	c.Close()
	f.Release()
	direct := dial(t, s.Addr)
	eventually(t, "the command is executed", func() bool {
		got, err := direct.Do("GET", "k")
		return err == nil && got == "$4\r\nlate\r\n"
	})
}

func TestHoldAfterKeepsReply(t *testing.T) {
	s, p := start(t)
	f := p.HoldAfter(faultproxy.Named("SET"))
	c := dial(t, p.Addr())
	mustSend(t, c, cmd("PING")+cmd("SET", "k", "v")+cmd("PING"))
	mustRead(t, c, "+PONG\r\n")
	mustTrigger(t, f)
	mustDo(t, dial(t, s.Addr), "$1\r\nv\r\n", "GET", "k")
	mustBeSilent(t, c)
	f.Release()
	mustRead(t, c, "+OK\r\n")
	mustRead(t, c, "+PONG\r\n")
}

func TestTimesAndDisarm(t *testing.T) {
	_, p := start(t)
	f := p.DropBefore(faultproxy.Named("PING"), faultproxy.Times(2))
	for range 2 {
		c := dial(t, p.Addr())
		mustSend(t, c, cmd("PING"))
		mustEnd(t, c, io.EOF)
	}
	mustDo(t, dial(t, p.Addr()), "+PONG\r\n", "PING")
	if f.Count() != 2 {
		t.Errorf("triggered %d times, want 2", f.Count())
	}
	g := p.DropBefore(faultproxy.Named("PING"), faultproxy.Always())
	g.Disarm()
	mustDo(t, dial(t, p.Addr()), "+PONG\r\n", "PING")
	select {
	case <-g.Triggered():
		t.Error("a disarmed fault was triggered")
	default:
	}
}

func TestFaultIsTriggeredOnceAmongManyConnections(t *testing.T) {
	_, p := start(t)
	f := p.DropAfter(faultproxy.Named("INCR"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	ended := 0
	for range 20 {
		c := dial(t, p.Addr())
		wg.Go(func() {
			if _, err := c.Do("INCR", "n"); err != nil {
				mu.Lock()
				defer mu.Unlock()
				ended++
			}
		})
	}
	wg.Wait()
	if ended != 1 || f.Count() != 1 {
		t.Errorf("%d connections ended, triggered %d times; want 1", ended, f.Count())
	}
	mustDo(t, dial(t, p.Addr()), "$2\r\n20\r\n", "GET", "n")
}

func TestMessagesAreNotAnswers(t *testing.T) {
	for _, proto := range []string{"2", "3"} {
		t.Run("RESP"+proto, func(t *testing.T) {
			s, p := start(t)
			c, direct := dial(t, p.Addr()), dial(t, s.Addr)
			if _, err := c.Do("HELLO", proto); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Do("SUBSCRIBE", "a", "b"); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(); err != nil {
				t.Fatal(err)
			}
			mustDo(t, direct, ":1\r\n", "PUBLISH", "a", "m")
			if got, err := c.Read(); err != nil || !strings.Contains(got, "message") {
				t.Fatalf("got %q, %v", got, err)
			}
			f := p.DropAfter(faultproxy.Named("PING"))
			if f.Count() != 0 {
				t.Fatal("a message triggered the fault")
			}
			mustSend(t, c, cmd("PING"))
			mustEnd(t, c, io.EOF)
			mustTrigger(t, f)
		})
	}
}

func TestDropAfterSubscribe(t *testing.T) {
	_, p := start(t)
	f := p.DropAfter(faultproxy.Named("SSUBSCRIBE"))
	c := dial(t, p.Addr())
	mustSend(t, c, cmd("SSUBSCRIBE", "a"))
	mustEnd(t, c, io.EOF)
	mustTrigger(t, f)
}

func TestUnparsedConnectionsPass(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	mustDo(t, c, "+OK\r\n", "MONITOR")
	mustDo(t, dial(t, s.Addr), "$1\r\nx\r\n", "ECHO", "x")
	if got, err := c.Read(); err != nil || !strings.Contains(got, `"ECHO" "x"`) {
		t.Fatalf("got %q, %v", got, err)
	}
	quiet := dial(t, p.Addr())
	mustSend(t, quiet, cmd("CLIENT", "REPLY", "SKIP")+cmd("SET", "k", "v")+cmd("GET", "k"))
	mustRead(t, quiet, "$1\r\nv\r\n")
}

func TestReplicaIsExempt(t *testing.T) {
	master, p := start(t)
	host, port, _ := strings.Cut(p.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host+" "+port)
	has := func(key string) func() bool {
		return func() bool { return replica.Client().Exists(t.Context(), key).Val() == 1 }
	}
	direct := dial(t, master.Addr)
	mustDo(t, direct, "+OK\r\n", "SET", "first", "v")
	eventually(t, "the write is replicated", has("first"))
	p.Freeze()
	if n := p.Cut(faultproxy.RST); n != 0 {
		t.Errorf("cut %d connections, want none", n)
	}
	mustDo(t, direct, "+OK\r\n", "SET", "second", "v")
	eventually(t, "the write is replicated through the frozen proxy", has("second"))
}
