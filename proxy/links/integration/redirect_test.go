package links_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/call"
)

// TestForgedRedirect checks that a redirect that a script returns moves no other command and
// reaches no foreign server.
func TestForgedRedirect(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	for _, n := range c.Nodes {
		if err := n.Client().Do(t.Context(), "ACL", "SETUSER", "app", "on", ">hunter2", "~*",
			"+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
	l := proxytest.Start(t, c.Addrs(), func(o *proxytest.Options) {
		o.Upstream.RedirectTimeout = 200 * time.Millisecond
	})
	evil := newFakeNode(t)
	evil.start(t, ranges(evil), func([]string) string { return "$4\r\nevil\r\n" })
	attacker, victim := l.Dial(t), l.Dial(t)
	victim.Want(t, "+OK\r\n", "AUTH", "app", "hunter2")
	victim.Want(t, "+OK\r\n", "SET", "{s}secret", "v")
	for _, command := range []string{"EVAL", "EVAL_RO"} {
		key := "{s}mine"
		for _, word := range []string{"MOVED", "ASK"} {
			script := fmt.Sprintf("return redis.error_reply('%s %d %s')", word, redistest.Slot("{s}secret"), evil.addr)
			if got := attacker.Reply(t, command, script, "1", key); got[0] != '-' {
				t.Errorf("%s by %s: %q", word, command, got)
			}
		}
	}
	victim.Want(t, "$1\r\nv\r\n", "GET", "{s}secret")
	if n := evil.calls.Load(); n > 0 {
		t.Errorf("the attacker's server got %d commands", n)
	}
}

// TestScriptThatReturnsTryAgainRunsOnce checks that a script that returns TRYAGAIN with its own
// text runs once.
func TestScriptThatReturnsTryAgainRunsOnce(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	client := proxytest.Start(t, c.Addrs()).Dial(t)
	for _, word := range []string{"TRYAGAIN", "CLUSTERDOWN", "ASK", "MOVED"} {
		script := "redis.call('INCR', KEYS[1]) return redis.error_reply('" + word + " no stock at the moment')"
		client.Want(t, "-"+word+" no stock at the moment\r\n", "EVAL", script, "1", "n")
	}
	client.Want(t, "$1\r\n4\r\n", "GET", "n")
}

// TestEndlessRedirects checks that a command that nodes redirect in a circle is sent a bounded
// number of times and gets an answer.
func TestEndlessRedirects(t *testing.T) {
	for _, word := range []string{"ASK", "MOVED"} {
		t.Run(word, func(t *testing.T) {
			a, b := newFakeNode(t), newFakeNode(t)
			to := func(n *fakeNode) func([]string) string {
				return func(args []string) string {
					return fmt.Sprintf("-%s %d %s\r\n", word, redistest.Slot(args[1]), n.addr)
				}
			}
			a.start(t, ranges(a), to(b))
			b.start(t, ranges(a), to(a))
			client := proxytest.Start(t, []string{a.addr}, func(o *proxytest.Options) {
				o.Embedded = true
				o.Upstream.RedirectTimeout = 300 * time.Millisecond
			}).Dial(t)
			const count = 20
			if err := client.Send(strings.Repeat(redistest.Command("GET", "k"), count)); err != nil {
				t.Fatal(err)
			}
			for range count {
				if got, err := client.Read(); !strings.HasPrefix(got, "-CLUSTERDOWN ") {
					t.Fatalf("got %q %v", got, err)
				}
			}
			if n := a.calls.Load() + b.calls.Load(); n > count*2*call.MaxHops {
				t.Errorf("%d tries of %d commands", n, count)
			}
		})
	}
}

// TestReplyCutOffBehindAnother checks that a reply that is cut off becomes an error, and that the
// reply before it arrives.
func TestReplyCutOffBehindAnother(t *testing.T) {
	t.Parallel() // it waits most of the time
	a, b := newFakeNode(t), newFakeNode(t)
	half, answered := make(chan struct{}), make(chan struct{})
	a.start(t, ranges(a, b), func([]string) string { <-answered; return "$1\r\na\r\n" })
	var asked atomic.Bool // also by Leash itself, on other connections
	b.start(t, ranges(a, b), func([]string) string {
		if !asked.Swap(true) {
			close(half)
			return "$100\r\nonly half of it"
		}
		return "" // closes the connection
	})
	l := proxytest.Start(t, []string{a.addr}, func(o *proxytest.Options) { o.Embedded = true })
	client, other := l.Dial(t), l.Dial(t)
	keyA, keyB := redistest.KeyIn(0, "a"), redistest.KeyIn(16383, "b")
	if err := client.Send(redistest.Command("GET", keyA) + redistest.Command("GET", keyB)); err != nil {
		t.Fatal(err)
	}
	<-half
	if got := other.Reply(t, "GET", keyB); !strings.HasPrefix(got, "-UPSTREAMLOST ") {
		t.Errorf("the one that made the node close: %q", got)
	}
	close(answered)
	if got, err := client.Read(); got != "$1\r\na\r\n" {
		t.Errorf("first reply %q %v", got, err)
	}
	if got, err := client.Read(); !strings.HasPrefix(got, "-UPSTREAMLOST ") {
		t.Errorf("second reply %q %v", got, err)
	}
}

// TestNewNodeWithoutSlots checks that Leash keeps a node that owns no slot while it is the target
// of a migration.
func TestNewNodeWithoutSlots(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs(), func(o *proxytest.Options) { o.Upstream.UpstreamTimeout = 5 * time.Second })
	n, err := c.AddMaster()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.BeginMove(100, n); err != nil {
		t.Fatal(err)
	}
	client := l.Dial(t)
	pipeline := strings.Repeat(redistest.Command("INCR", redistest.KeyIn(100, "k")), 20)
	count := 0
	for start := time.Now(); time.Since(start) < 8*time.Second; l.Upstream.Refresh() {
		if err := client.Send(pipeline); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			count++
			if got, err := client.Read(); got != fmt.Sprintf(":%d\r\n", count) {
				t.Fatalf("got %q %v, want %d", got, err, count)
			}
		}
	}
}
