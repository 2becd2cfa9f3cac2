package links_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestMasterKilled checks that keys of a dead master wait or give a clear error, other keys are
// served, and all keys work after the failover.
func TestMasterKilled(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1})
	l := proxytest.Start(t, c.Addrs())
	client, other := l.Dial(t), l.Dial(t)
	client.Timeout = 20 * time.Second
	victim := c.Nodes[0]
	dead, alive := proxytest.KeyOn(t, c, victim, "d"), proxytest.KeyOn(t, c, c.Nodes[1], "a")
	client.Want(t, "+OK\r\n", "SET", dead, "1")
	client.Want(t, "+OK\r\n", "SET", alive, "1")
	if err := victim.Client().Do(t.Context(), "WAIT", 1, 1000).Err(); err != nil {
		t.Fatal(err)
	}
	if err := victim.Kill(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for {
		got := client.Reply(t, "GET", dead)
		other.Want(t, "$1\r\n1\r\n", "GET", alive)
		if got == "$1\r\n1\r\n" {
			break
		}
		if !strings.HasPrefix(got, "-UPSTREAMLOST ") && !strings.HasPrefix(got, "-UPSTREAMDOWN ") &&
			!strings.HasPrefix(got, "-CLUSTERDOWN ") {
			t.Fatalf("the dead master's key gives %q", got)
		}
		if mget := client.Reply(t, "MGET", alive, dead); strings.HasPrefix(mget, "*") &&
			mget != "*2\r\n$1\r\n1\r\n$1\r\n1\r\n" {
			t.Fatalf("a wrong nil: %q", mget)
		}
		if time.Since(start) > 30*time.Second {
			t.Fatalf("no failover after %v: %q", time.Since(start), got)
		}
	}
	t.Logf("served again after %v", time.Since(start))
	for i := range 200 {
		client.Want(t, "+OK\r\n", "SET", fmt.Sprintf("k%d", i), "v")
	}
	client.Want(t, "*2\r\n$1\r\n1\r\n$1\r\n1\r\n", "MGET", dead, alive)
}

// TestHangingNode checks that Leash notices a node that does not answer. Only the calls to it end
// with an error.
func TestHangingNode(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: 30 * time.Second})
	l := proxytest.Start(t, c.Addrs(), func(o *proxytest.Options) {
		o.Upstream.UpstreamTimeout = 5 * time.Second
	})
	client, other := l.Dial(t), l.Dial(t)
	client.Timeout = 20 * time.Second
	hanging, alive := proxytest.KeyOn(t, c, c.Nodes[0], "h"), proxytest.KeyOn(t, c, c.Nodes[1], "a")
	client.Want(t, "+OK\r\n", "SET", hanging, "1")
	other.Want(t, "+OK\r\n", "SET", alive, "1")
	if err := c.Nodes[0].Pause(); err != nil {
		t.Fatal(err)
	}
	if err := client.Send(redistest.Command("GET", hanging) + redistest.Command("GET", alive)); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		other.Want(t, "$1\r\n1\r\n", "GET", alive)
	}
	if got, err := client.Read(); !strings.HasPrefix(got, "-UPSTREAMLOST ") {
		t.Fatalf("got %q %v", got, err)
	}
	if got, err := client.Read(); got != "$1\r\n1\r\n" {
		t.Fatalf("got %q %v", got, err)
	}
	if got := client.Reply(t, "GET", hanging); !strings.HasPrefix(got, "-UPSTREAMDOWN ") {
		t.Fatalf("got %q", got)
	}
	if err := c.Nodes[0].Resume(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "the node serves again", func() bool { return client.Reply(t, "GET", hanging) == "$1\r\n1\r\n" })
}

// TestSlowScript checks that a script of 6 s costs no connection and does not stop other nodes.
func TestSlowScript(t *testing.T) {
	t.Parallel()
	redistest.TakesLong(t)
	c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: 30 * time.Second})
	l := proxytest.Start(t, c.Addrs())
	slow, waiting, other := l.Dial(t), l.Dial(t), l.Dial(t)
	slow.Timeout, waiting.Timeout = 20*time.Second, 20*time.Second
	busy, alive := proxytest.KeyOn(t, c, c.Nodes[0], "b"), proxytest.KeyOn(t, c, c.Nodes[1], "a")
	waiting.Want(t, "+OK\r\n", "SET", busy, "1")
	other.Want(t, "+OK\r\n", "SET", alive, "1")
	const script = `local t = redis.call('TIME')[1] + 6; while tonumber(redis.call('TIME')[1]) < t do end return 'done'`
	if err := slow.Send(redistest.Command("EVAL", script, "1", busy)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for time.Since(start) < 5500*time.Millisecond {
		other.Want(t, "$1\r\n1\r\n", "GET", alive)
	}
	if got, err := slow.Read(); got != "$4\r\ndone\r\n" {
		t.Fatalf("the script: %q %v", got, err)
	}
	waiting.Want(t, "$1\r\n1\r\n", "GET", busy)
	if strings.Contains(l.Logs.String(), "connection to redis lost") {
		t.Error("a link was closed for it")
	}
}

// TestUpstreamDown checks that clients get quick errors while Redis is down, and are served
// again when it is back.
func TestUpstreamDown(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		o.Upstream.RedirectTimeout = 200 * time.Millisecond
	})
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", "k", "v")
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "errors", func() bool { return strings.HasPrefix(client.Reply(t, "GET", "k"), "-UPSTREAMDOWN ") })
	start := time.Now()
	for range 1000 {
		if got := client.Reply(t, "GET", "k"); !strings.HasPrefix(got, "-UPSTREAMDOWN ") {
			t.Fatalf("got %q", got)
		}
	}
	t.Logf("1000 errors in %v", time.Since(start))
	client.Want(t, "+PONG\r\n", "PING")
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "service", func() bool { return client.Reply(t, "SET", "k", "v") == "+OK\r\n" })
}

// TestAuthWaitsForRedis checks that AUTH waits for a Redis that is away, as other commands do.
func TestAuthWaitsForRedis(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		o.Upstream.RedirectTimeout = time.Minute
	})
	c := l.Dial(t)
	c.Want(t, "+PONG\r\n", "PING")
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(redistest.Command("AUTH", "default", "any")); err != nil {
		t.Fatal(err)
	}
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Read(); got != "+OK\r\n" {
		t.Errorf("AUTH: %q, %v", got, err)
	}
}

// TestLoadingIsNotBack checks that the log says that a node is back only after it has loaded its
// data.
func TestLoadingIsNotBack(t *testing.T) {
	redis, fault := proxytest.Faulty(t)
	l := proxytest.Start(t, []string{fault.Addr()})
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it is lost", func() bool { return strings.Contains(l.Logs.String(), "redis node lost") })
	loading := fault.Replace(faultproxy.Named("PING"), "-LOADING Redis is loading the dataset in memory\r\n",
		faultproxy.Always())
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it loads", func() bool { return loading.Count() > 3 })
	if strings.Contains(l.Logs.String(), "redis node is back") {
		t.Error("it counts as back while it loads")
	}
	loading.Disarm()
	proxytest.Eventually(t, "it is back", func() bool { return strings.Contains(l.Logs.String(), "redis node is back") })
}
