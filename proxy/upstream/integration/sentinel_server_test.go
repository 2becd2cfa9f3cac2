package upstream_test

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/dial"
	"leash/proxy/upstream"
)

// writer appends rising numbers to its own list, in pipelines, and records which were acknowledged.
type writer struct {
	key    string
	acked  []int // in order
	next   int
	errors map[string]int // by first word
}

// burst sends one pipeline on c. It returns an error when the connection ends.
func (w *writer) burst(c *redistest.Client) error {
	const size = 20
	var raw strings.Builder
	for i := range size {
		raw.WriteString(redistest.Command("RPUSH", w.key, strconv.Itoa(w.next+i)))
	}
	first := w.next
	w.next += size
	if err := c.Send(raw.String()); err != nil {
		return err
	}
	for i := range size {
		reply, err := c.Read()
		if err != nil {
			return err
		}
		if reply[0] == ':' {
			w.acked = append(w.acked, first+i)
			continue
		}
		word, _, _ := strings.Cut(strings.TrimSpace(reply), " ")
		w.errors[word]++
	}
	return nil
}

// check compares the master's list with the acknowledged numbers from settled on. All of them must
// be there, in order, without duplicates.
func (w *writer) check(t *testing.T, c *redistest.Client, settled int) {
	t.Helper()
	stored := strings.Fields(listLines(c.Reply(t, "LRANGE", w.key, "0", "-1")))
	there := make(map[int]bool)
	last := -1
	for _, s := range stored {
		n, err := strconv.Atoi(s)
		if err != nil || n <= last {
			t.Fatalf("%s: %q behind %d", w.key, s, last)
		}
		there[n], last = true, n
	}
	for _, n := range w.acked {
		if n >= settled && !there[n] {
			t.Fatalf("%s: %d was acknowledged by the new master and is not there", w.key, n)
		}
	}
	for word := range w.errors {
		if word != "-UPSTREAMLOST" && word != "-UPSTREAMDOWN" {
			t.Errorf("%s: %d times %s", w.key, w.errors[word], word)
		}
	}
}

// listLines returns the elements of an array reply, one per line.
func listLines(reply string) string {
	var b strings.Builder
	for i, line := range strings.Split(reply, "\r\n") {
		if i > 0 && i%2 == 0 {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// TestSentinelFailover checks that two changes of the master under load, one planned and one by its
// death, cause no wrong reply, no changed order, no command that runs twice, and no READONLY error.
func TestSentinelFailover(t *testing.T) {
	t.Parallel() // it waits most of the time
	// On a busy machine, a live master may be silent for a second. The failover after that loses
	// acknowledged writes, which this test does not look for.
	g := redistest.StartSentinel(t, redistest.SentinelOptions{DownAfter: 5 * time.Second})
	l := proxytest.StartBehindSentinels(t, g)
	var stop atomic.Bool
	var running sync.WaitGroup
	writers := make([]*writer, 8)
	for i := range writers {
		w := &writer{key: fmt.Sprint("list", i), errors: make(map[string]int)}
		writers[i] = w
		c := l.Dial(t)
		running.Go(func() {
			for !stop.Load() {
				if err := w.burst(c); err != nil {
					t.Errorf("connection: %v", err)
					return
				}
			}
		})
	}
	killed, third := changeMasterTwice(t, g, l)
	client := l.Dial(t)
	stop.Store(true)
	running.Wait()
	settled := make([]int, len(writers))
	var errors int
	for i, w := range writers {
		settled[i] = w.next
		for word, n := range w.errors {
			errors += n
			t.Logf("%s: %d %s, %d acknowledged", w.key, n, word, len(w.acked))
		}
	}
	t.Logf("%d commands were answered with an error", errors) // none, if nothing was in flight as the master died
	for range 20 {
		for _, w := range writers {
			if err := w.burst(client); err != nil {
				t.Fatal(err)
			}
		}
	}
	direct := proxytest.Dial(t, third.Addr)
	for i, w := range writers {
		w.check(t, direct, settled[i])
	}
	for _, server := range g.Servers {
		if server != third && server.Running() && writesTo(t, server) {
			t.Errorf("%s is no master, and is written to", server.Addr)
		}
	}
	if err := killed.Restart(); err != nil {
		t.Fatal(err)
	}
	client.Want(t, "+OK\r\n", "SET", "after", "1")
	direct.Want(t, "$1\r\n1\r\n", "GET", "after")
}

// TestSentinelTransactions checks that a transaction runs once as a whole, or not at all, while the
// master changes.
func TestSentinelTransactions(t *testing.T) {
	t.Parallel() // it waits most of the time
	g := redistest.StartSentinel(t)
	l := proxytest.StartBehindSentinels(t, g)
	var stop atomic.Bool
	var running sync.WaitGroup
	for i := range 4 {
		c := l.Dial(t)
		running.Go(func() {
			for n := 0; !stop.Load(); n++ {
				value := strconv.Itoa(n)
				err := c.Send(redistest.Command("MULTI") + redistest.Command("RPUSH", fmt.Sprint("a", i), value) +
					redistest.Command("RPUSH", fmt.Sprint("b", i), value) + redistest.Command("EXEC"))
				for range 4 {
					if err == nil {
						_, err = c.Read()
					}
				}
				if err != nil {
					t.Errorf("connection: %v", err)
					return
				}
			}
		})
	}
	_, third := changeMasterTwice(t, g, l)
	stop.Store(true)
	running.Wait()
	direct := proxytest.Dial(t, third.Addr)
	for i := range 4 {
		a := strings.Fields(listLines(direct.Reply(t, "LRANGE", fmt.Sprint("a", i), "0", "-1")))
		b := strings.Fields(listLines(direct.Reply(t, "LRANGE", fmt.Sprint("b", i), "0", "-1")))
		if !slices.Equal(a, b) {
			t.Errorf("client %d: half of a transaction ran: %d and %d", i, len(a), len(b))
		}
		last := -1
		for _, text := range a {
			n, err := strconv.Atoi(text)
			if err != nil || n <= last {
				t.Fatalf("client %d: %q behind %d", i, text, last)
			}
			last = n
		}
		t.Logf("client %d: %d transactions", i, len(a))
	}
}

// TestSentinelTransactionFollowsTheMaster checks that the new master executes a transaction without
// watched keys when the old one dies before EXEC.
func TestSentinelTransactionFollowsTheMaster(t *testing.T) {
	t.Parallel() // it waits most of the time
	g := redistest.StartSentinel(t)
	l := proxytest.StartBehindSentinels(t, g, func(o *proxytest.Options) { o.Upstream.RedirectTimeout = time.Minute })
	open, fresh := l.Dial(t), l.Dial(t)
	open.Want(t, "+OK\r\n", "MULTI")
	open.Want(t, "+QUEUED\r\n", "SET", "open", "1")
	fresh.Want(t, "+PONG\r\n", "PING")
	if err := g.Master().Kill(); err != nil {
		t.Fatal(err)
	}
	if err := fresh.Send(redistest.Command("MULTI") + redistest.Command("SET", "fresh", "1")); err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"+OK\r\n", "+QUEUED\r\n"} {
		if got, err := fresh.Read(); err != nil || got != reply {
			t.Fatalf("got %q (%v), want %q", got, err, reply)
		}
	}
	open.Want(t, "*1\r\n+OK\r\n", "EXEC")
	fresh.Want(t, "*1\r\n+OK\r\n", "EXEC")
}

// changeMasterTwice makes another server the master by command, and then a third one by killing the
// second. It returns both when Leash writes to the third.
func changeMasterTwice(t *testing.T, g *redistest.SentinelGroup, l *proxytest.Leash) (killed, third *redistest.Server) {
	t.Helper()
	killed, err := g.Failover()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	third, err = g.AwaitMaster(killed, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	client := l.Dial(t)
	proxytest.Eventually(t, "the new master serves", func() bool { return client.Reply(t, "SET", "served", "1") == "+OK\r\n" })
	return killed, third
}

// writesTo reports whether a client's last command on a server was a write. The replication link is
// not counted, although it carries the same commands.
func writesTo(t *testing.T, s *redistest.Server) bool {
	t.Helper()
	list, err := s.Client().ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(list) {
		if strings.Contains(line, "cmd=rpush") && !strings.Contains(line, "flags=M") {
			return true
		}
	}
	return false
}

// TestSentinelReadOnly checks that a write that a former master refuses waits for the new master.
// The client gets no error.
func TestSentinelReadOnly(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinel(t, redistest.SentinelOptions{DownAfter: redistest.NoFailover})
	l := proxytest.StartBehindSentinels(t, g)
	c := l.Dial(t)
	c.Want(t, ":1\r\n", "RPUSH", "k", "a")
	direct := proxytest.Dial(t, g.Master().Addr)
	host, port, _ := net.SplitHostPort(g.Servers[1].Addr)
	direct.Want(t, "+OK\r\n", "REPLICAOF", host, port)
	if err := c.Send(redistest.Command("RPUSH", "k", "b")); err != nil {
		t.Fatal(err)
	}
	refused := func() bool {
		return strings.Contains(direct.Reply(t, "INFO", "errorstats"), "errorstat_READONLY:count=")
	}
	proxytest.Eventually(t, "the write is refused", refused)
	direct.Want(t, "+OK\r\n", "REPLICAOF", "NO", "ONE")
	if got, err := c.Read(); err != nil || got != ":2\r\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestSentinelLocks checks that a hold survives a failover or its loss is reported. The new master
// grants it to nobody else in that time.
func TestSentinelLocks(t *testing.T) {
	t.Parallel() // it waits most of the time
	g := redistest.StartSentinel(t)
	const ttl = 30 * time.Second
	l := proxytest.StartBehindSentinels(t, g, func(o *proxytest.Options) { o.Locks.WatchdogTimeout = ttl })
	holder, rival := l.Dial(t), l.Dial(t)
	token := holder.Reply(t, "LOCK.ACQUIRE", "lock")
	if token[0] != ':' {
		t.Fatalf("got %q, want a token", token)
	}
	waiter, listener, speaker := l.Dial(t), l.Dial(t), l.Dial(t)
	if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "lock", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	listener.Want(t, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n", "SUBSCRIBE", "news")
	proxytest.Eventually(t, "it waits", func() bool {
		return strings.Contains(rival.Reply(t, "INFO", "leash"), "leash_waiters:1\r\n")
	})
	direct := proxytest.Dial(t, g.Master().Addr)
	direct.Reply(t, "SET", "mark", "1")
	direct.Want(t, ":2\r\n", "WAIT", "2", "5000")
	old := g.Master()
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.AwaitMaster(old, time.Minute); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(ttl + 2*time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if got := rival.Reply(t, "LOCK.ACQUIRE", "lock"); got[0] == ':' {
			t.Fatalf("granted to two: %q and %q", token, got)
		}
	}
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "lock")
	if got, err := waiter.Read(); err != nil || got[0] != ':' {
		t.Errorf("got %q, %v; want a token", got, err)
	}
	proxytest.Eventually(t, "the subscription is at the new master", func() bool {
		return speaker.Reply(t, "PUBLISH", "news", "m") == ":1\r\n"
	})
	if got, err := listener.Read(); err != nil || got != "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nm\r\n" {
		t.Errorf("got %q, %v", got, err)
	}
	// One more subscription may be about to move there. On a busy machine, the sentinels may change
	// the master once more.
	proxytest.Eventually(t, "one subscription and the lock are at the new master", func() bool {
		master := g.Master()
		return master != nil && master.Client().PubSubNumSub(t.Context(), "news").Val()["news"] == 1 &&
			master.Client().Exists(t.Context(), "lock").Val() == 1
	})
}

// TestSentinelForgetsLock checks that a hold that the new master never had is reported as lost when
// the master changes, and not only at its next renewal.
func TestSentinelForgetsLock(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinel(t, redistest.SentinelOptions{Replicas: 1, Args: []string{"--replica-read-only", "no"}})
	l := proxytest.StartBehindSentinels(t, g, func(o *proxytest.Options) { o.Locks.WatchdogTimeout = 10 * time.Minute })
	holder := l.Dial(t)
	old, replica := g.Master(), proxytest.Dial(t, g.Servers[1].Addr)
	if got := holder.Reply(t, "LOCK.ACQUIRE", "lock"); got[0] != ':' {
		t.Fatalf("got %q, want a token", got)
	}
	proxytest.Eventually(t, "the replica has it, and loses it", func() bool { return replica.Reply(t, "DEL", "lock") == ":1\r\n" })
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.AwaitMaster(old, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := holder.AwaitEnd(); err != nil {
		t.Error(err)
	}
	proxytest.Eventually(t, "the loss is logged", func() bool {
		return strings.Contains(l.Logs.String(), `msg="lock lost" key=lock`)
	})
}

// TestSentinelCredentials checks that sentinels and servers have separate passwords.
func TestSentinelCredentials(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinel(t, redistest.SentinelOptions{Replicas: 1, Password: "pw",
		SentinelPassword: "secret", DownAfter: redistest.NoFailover})
	l := proxytest.StartBehindSentinels(t, g, func(o *proxytest.Options) {
		o.Upstream.Password, o.Upstream.SentinelPassword = "pw", "secret"
		o.Front.TrustClients = true
	})
	c := l.Dial(t)
	c.Want(t, "+OK\r\n", "SET", "k", "v")
	if got := c.Reply(t, "INFO", "leash"); !strings.Contains(got, "leash_upstream_mode:sentinel\r\n") {
		t.Errorf("INFO: %q", got)
	}
	for name, cfg := range map[string]upstream.Config{
		"NOAUTH":                         {Addrs: g.Addrs(), SentinelMaster: g.Name, Config: dial.Config{Password: "pw"}},
		`it watches no master named "x"`: {Addrs: g.Addrs(), SentinelMaster: "x", Config: dial.Config{SentinelPassword: "secret"}},
		"--sentinel-master":              {Addrs: g.Addrs(), Config: dial.Config{SentinelPassword: "secret", Password: "pw"}},
		"is not a sentinel": {Addrs: []string{g.Servers[0].Addr}, SentinelMaster: g.Name,
			Config: dial.Config{SentinelPassword: "pw"}},
	} {
		cfg.Wait = -1 // it must fail at once nevertheless
		up, err := upstream.New(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := up.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
}
