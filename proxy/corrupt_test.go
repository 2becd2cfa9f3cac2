package proxy_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/guard"
	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/upstream"
)

// TestCorruptRepliesUnderLoad checks that Leash survives replies of Redis that are corrupt
// or of another type. They occur on links, pinned connections, subscriptions, lock scripts and the
// topology. No goroutine panics, no client hangs or gets the reply to another command, and no lock
// has two holders. Everything works again after the corruption ends. LEASH_CORRUPT_FOR=1m sets the
// length of each round.
func TestCorruptRepliesUnderLoad(t *testing.T) {
	lasts := 3 * time.Second
	if testing.Short() {
		lasts = time.Second
	}
	if d, err := time.ParseDuration(os.Getenv("LEASH_CORRUPT_FOR")); err == nil {
		lasts = d
	}
	quick := func(o *proxytest.Options) {
		o.Upstream.UpstreamTimeout = 2 * time.Second
		o.Locks.UpstreamTimeout, o.Locks.WatchdogTimeout = 2*time.Second, 2*time.Second
	}
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		p := proxyBefore(t, redistest.Start(t).Addr)
		l := proxytest.Start(t, []string{p.Addr()}, quick)
		liveThroughCorruption(t, l, lasts, p)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t, redistest.ClusterOptions{FaultProxy: true})
		l := proxytest.Start(t, c.Addrs(), quick)
		var ps []*faultproxy.Proxy
		for _, n := range c.Masters() {
			ps = append(ps, n.Proxy)
		}
		liveThroughCorruption(t, l, lasts, ps...)
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		g := redistest.StartSentinel(t, redistest.SentinelOptions{Replicas: 1, Sentinels: 1,
			DownAfter: redistest.NoFailover})
		p := proxyBefore(t, g.Sentinels[0].Addr)
		l := proxytest.Start(t, []string{p.Addr()}, quick, func(o *proxytest.Options) {
			o.Upstream.SentinelMaster, o.Upstream.ReadFrom = g.Name, upstream.ReadReplica
		})
		liveThroughCorruption(t, l, lasts, p)
	})
}

// TestStartWithCorruptReplies checks that Leash waits at its start while Redis's replies
// are corrupt.
func TestStartWithCorruptReplies(t *testing.T) {
	t.Parallel()
	panics := guard.Panics()
	for _, share := range []float64{0.25, 0.5} {
		p := proxyBefore(t, redistest.Start(t).Addr)
		p.Corrupt(share, false)
		// earlier starts may have failed
		stop := time.AfterFunc(8*time.Second, func() { p.Corrupt(0, false) })
		l := proxytest.Start(t, []string{p.Addr()}, func(o *proxytest.Options) {
			o.Upstream.UpstreamTimeout, o.Upstream.Wait = time.Second, -1
		})
		stop.Stop()
		p.Corrupt(0, false)
		servesAgain(t, l, "after the start")
	}
	if n := guard.Panics() - panics; n != 0 {
		t.Errorf("%d panics were recovered, see the log", n)
	}
}

// panicsIn returns the lines of a log that report a panic.
func panicsIn(log string) (lines []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "panic recovered") {
			lines = append(lines, line)
		}
	}
	return lines
}

func proxyBefore(t *testing.T, target string) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// liveThroughCorruption runs a mixed load on l while the proxies corrupt first a hundredth and then
// a quarter of what Redis sends.
func liveThroughCorruption(t *testing.T, l *proxytest.Leash, lasts time.Duration, proxies ...*faultproxy.Proxy) {
	t.Helper()
	setUp := l.Dial(t)
	for i := range corruptKeys {
		setUp.Want(t, "+OK\r\n", "SET", corruptKey(i), corruptKey(i))
	}
	proxytest.Eventually(t, "replicas have them too", func() bool {
		return !strings.Contains(setUp.Reply(t, "MGET", corruptKey(0), corruptKey(corruptKeys-1)), "$-1")
	})
	panics := guard.Panics()
	for _, share := range []float64{0.01, 0.25} {
		for _, p := range proxies {
			p.Corrupt(share, true)
		}
		load := startCorruptLoad(t, l.Addr)
		time.Sleep(lasts)
		for _, p := range proxies {
			p.Corrupt(0, false)
		}
		load.recovers(t)
		load.stop()
	}
	for _, p := range proxies {
		if n := p.Stats().Corrupted; n == 0 {
			t.Logf("nothing was corrupted at %s, which sent little", p.Addr())
		} else {
			t.Logf("%d replies corrupted, %d clean calls", n, cleanCalls.Load())
		}
	}
	if n := guard.Panics() - panics; n != 0 {
		t.Errorf("%d panics were recovered:\n%s", n, panicsIn(l.Logs.String()))
	}
}

const corruptKeys = 50

// corruptPatience is how long a client waits for a reply. Recovery takes less time, so a client
// that hangs is not counted as recovered.
const corruptPatience = 60 * time.Second

func corruptKey(i int) string { return "key:" + strconv.Itoa(i%corruptKeys) }

// published is the number of the last message.
var published atomic.Int64

// cleanCalls counts the calls of all loads that got a correct reply.
var cleanCalls atomic.Int64

// corruptLoad runs clients of every kind. Each checks its replies.
type corruptLoad struct {
	t       *testing.T
	addr    string
	ctx     context.Context
	cancel  context.CancelFunc
	clients sync.WaitGroup
	holders atomic.Int64
	clean   []*atomic.Int64
	names   []string
}

func startCorruptLoad(t *testing.T, addr string) *corruptLoad {
	w := &corruptLoad{t: t, addr: addr}
	w.ctx, w.cancel = context.WithCancel(t.Context())
	t.Cleanup(w.stop)
	for name, client := range map[string]func(*corruptClient) error{
		"GET": (*corruptClient).get, "pipeline": (*corruptClient).pipeline, "MGET": (*corruptClient).mget,
		"SCAN":  (*corruptClient).scan,
		"MULTI": (*corruptClient).transaction, "BLPOP": (*corruptClient).block, "publish": (*corruptClient).publish,
		"subscribe": (*corruptClient).subscribe,
		"lock":      (*corruptClient).lock, "lock again": (*corruptClient).lock,
		"lock info": (*corruptClient).lockInfo, "tracking": (*corruptClient).track, "INFO": (*corruptClient).info,
	} {
		clean := new(atomic.Int64)
		w.clean, w.names = append(w.clean, clean), append(w.names, name)
		w.clients.Go(func() { w.run(name, client, clean) })
	}
	return w
}

func (w *corruptLoad) stop() {
	w.cancel()
	w.clients.Wait()
}

// recovers waits until every kind of client has had more clean calls.
func (w *corruptLoad) recovers(t *testing.T) {
	t.Helper()
	for i, clean := range w.clean {
		goal := clean.Load() + 10
		for end := time.Now().Add(corruptPatience * 4 / 5); clean.Load() < goal; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s: %d clean calls since the corruption has ended, want 10", w.names[i], clean.Load()-goal+10)
				break
			}
		}
	}
}

// run calls client repeatedly on one connection. After an error it makes a new one.
func (w *corruptLoad) run(name string, client func(*corruptClient) error, clean *atomic.Int64) {
	for w.ctx.Err() == nil {
		conn, err := redistest.Dial(w.addr)
		if err != nil {
			w.t.Errorf("%s: %v", name, err)
			return
		}
		conn.Timeout = corruptPatience
		stop := context.AfterFunc(w.ctx, func() { conn.Close() })
		c := &corruptClient{Client: conn, load: w}
		for err == nil && w.ctx.Err() == nil {
			if err = client(c); err == nil {
				clean.Add(1)
				cleanCalls.Add(1)
			}
			c.calls++
		}
		c.leave()
		if os.IsTimeout(err) && name != "subscribe" { // there may have been no message
			w.t.Errorf("%s: no reply for %v", name, conn.Timeout)
		}
		stop()
		conn.Close()
	}
}

// corruptClient is one connection and what its client knows. A call returns an error when the
// connection cannot be used, or when the reply is an error or was replaced by the proxy.
type corruptClient struct {
	*redistest.Client
	load   *corruptLoad
	calls  int
	holds  bool
	subbed bool
}

// call sends a command and checks the reply. It must begin with want, be an error, or be corrupt.
func (c *corruptClient) call(want string, args ...string) error {
	reply, err := c.Do(args...)
	for err == nil && strings.HasPrefix(reply, ">") { // an invalidation
		reply, err = c.Read()
	}
	if err != nil {
		return err
	}
	return c.check(reply, want, args...)
}

func (c *corruptClient) check(reply, want string, args ...string) error {
	switch {
	case strings.HasPrefix(reply, want):
		return nil
	case reply[0] == '-', faultproxy.Replacement(reply):
		return fmt.Errorf("got %.80q", reply)
	}
	c.load.t.Errorf("%q: got %.200q, want %q: it is the reply to something else", args, reply, want)
	return fmt.Errorf("wrong")
}

func bulkOf(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func (c *corruptClient) get() error {
	key := corruptKey(c.calls)
	return c.call(bulkOf(key), "GET", key)
}

func (c *corruptClient) pipeline() error {
	var raw strings.Builder
	for i := range 20 {
		raw.WriteString(redistest.Command("GET", corruptKey(c.calls+i)))
	}
	if err := c.Send(raw.String()); err != nil {
		return err
	}
	var failed error
	for i := range 20 {
		key := corruptKey(c.calls + i)
		reply, err := c.Read()
		if err != nil {
			return err
		}
		if err := c.check(reply, bulkOf(key), "GET", key); err != nil {
			failed = err
		}
	}
	return failed
}

func (c *corruptClient) mget() error {
	args, reply := []string{"MGET"}, "*5\r\n"
	for i := range 5 {
		args, reply = append(args, corruptKey(c.calls+i)), reply+bulkOf(corruptKey(c.calls+i))
	}
	return c.call(reply, args...)
}

func (c *corruptClient) scan() error { return c.call("*2\r\n$", "SCAN", "0") }

func (c *corruptClient) transaction() error {
	key := corruptKey(c.calls)
	for _, step := range [][]string{{"+OK\r\n", "MULTI"}, {"+QUEUED\r\n", "GET", key},
		{"*1\r\n" + bulkOf(key), "EXEC"}} {
		if err := c.call(step[0], step[1:]...); err != nil {
			return err
		}
	}
	return nil
}

func (c *corruptClient) block() error { return c.call("*-1\r\n", "BLPOP", "nothing", "0.01") }

func (c *corruptClient) publish() error {
	time.Sleep(time.Millisecond)
	return c.call(":", "PUBLISH", "channel", strconv.FormatInt(published.Add(1), 10))
}

// subscribe reads messages and checks their channel. Messages published through different nodes may
// arrive in any order.
func (c *corruptClient) subscribe() error {
	if !c.subbed {
		if err := c.call("*3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n", "SUBSCRIBE", "channel"); err != nil {
			return err
		}
		c.subbed = true
	}
	reply, err := c.Read()
	if err != nil {
		return err
	}
	if err := c.check(reply, "*3\r\n$7\r\nmessage\r\n$7\r\nchannel\r\n"); err != nil {
		return err
	}
	lines := strings.Split(reply, "\r\n")
	if n, err := strconv.ParseInt(lines[len(lines)-2], 10, 64); err != nil || n <= 0 || n > published.Load() {
		c.load.t.Errorf("message %q, which was never published", reply)
	}
	return nil
}

// lock takes the lock. The client counts as the holder until it asks for the release.
func (c *corruptClient) lock() error {
	if err := c.call(":", "LOCK.ACQUIRE", "lock", "BLOCK", "500"); err != nil {
		return err
	}
	c.holds = true
	if n := c.load.holders.Add(1); n != 1 {
		c.load.t.Errorf("%d clients hold the lock", n)
	}
	time.Sleep(time.Millisecond)
	c.leave()
	return c.call(":1\r\n", "LOCK.RELEASE", "lock")
}

// leave ends the count of a hold.
func (c *corruptClient) leave() {
	if c.holds {
		c.holds = false
		c.load.holders.Add(-1)
	}
}

func (c *corruptClient) lockInfo() error {
	reply, err := c.Do("LOCK.INFO", "lock")
	if err != nil {
		return err
	}
	if reply == "$-1\r\n" || strings.HasPrefix(reply, "*-1") {
		return nil
	}
	return c.check(reply, "*22\r\n$5\r\nstate\r\n", "LOCK.INFO")
}

func (c *corruptClient) track() error {
	if c.calls == 0 {
		if err := c.call("%", "HELLO", "3"); err != nil {
			return err
		}
		if err := c.call("+OK\r\n", "CLIENT", "TRACKING", "ON"); err != nil {
			return err
		}
	}
	return c.get()
}

func (c *corruptClient) info() error { return c.call("$", "INFO") }
