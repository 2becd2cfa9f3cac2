package links_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/scan"
)

// downTimeout is --upstream-timeout in these tests. downSlack is the delay that a busy machine may
// add.
const (
	downTimeout = 5 * time.Second
	downSlack   = 5 * time.Second
)

// wholeCommands returns commands that need every master. keys must have keys of each.
func wholeCommands(keys []string) map[string][]string {
	pairs := []string{"MSET"}
	for _, key := range keys {
		pairs = append(pairs, key, "new")
	}
	return map[string][]string{
		"MGET": append([]string{"MGET"}, keys...), "EXISTS": append([]string{"EXISTS"}, keys...),
		"TOUCH": append([]string{"TOUCH"}, keys...),
		"MSET":  pairs, "DBSIZE": {"DBSIZE"}, "KEYS": {"KEYS", "*"}, "RANDOMKEY": {"RANDOMKEY"},
		"SCAN":        {"SCAN", "0", "COUNT", "1000"},
		"SCRIPT LOAD": {"SCRIPT", "LOAD", "return 1"}, "SCRIPT EXISTS": {"SCRIPT", "EXISTS", proxytest.Digest("return 1")},
		"SCRIPT FLUSH": {"SCRIPT", "FLUSH"},
		"SCRIPT KILL":  {"SCRIPT", "KILL"}, "FUNCTION FLUSH": {"FUNCTION", "FLUSH"},
		"FLUSHALL": {"FLUSHALL"}, "FLUSHDB": {"FLUSHDB"}, "DEL": append([]string{"DEL"}, keys...),
		"UNLINK": append([]string{"UNLINK"}, keys...),
	}
}

// outcome is a reply or an error, and how long it took.
type outcome struct {
	name, reply string
	err         error
	took        time.Duration
}

// scanToEnd repeats SCAN to its end. It returns the number of keys as an integer reply, or the
// first error.
func scanToEnd(client *redistest.Client, args []string) (string, error) {
	for keys := 0; ; {
		reply, err := client.Do(args...)
		next, list, ok := scan.ParseReply([]byte(reply))
		if err != nil || !ok {
			return reply, err
		}
		if keys += len(proxytest.Bulks(string(list))); next == 0 {
			return fmt.Sprintf(":%d\r\n", keys), nil
		}
		args = append([]string{"SCAN", strconv.FormatUint(next, 10)}, args[2:]...)
	}
}

// runOne runs a command; it runs SCAN to its end.
func runOne(client *redistest.Client, args []string) (string, error) {
	if args[0] == "SCAN" {
		return scanToEnd(client, args)
	}
	return client.Do(args...)
}

// runAll runs commands at once, each on its own connection.
func runAll(t *testing.T, l *proxytest.Leash, commands map[string][]string) (all []outcome) {
	t.Helper()
	done := make(chan outcome)
	for name, args := range commands {
		client := l.Dial(t)
		client.Timeout = 30 * time.Second
		go func() {
			o := outcome{name: name}
			start := time.Now()
			o.reply, o.err = runOne(client, args)
			o.took = time.Since(start)
			done <- o
		}()
	}
	for range commands {
		all = append(all, <-done)
	}
	return all
}

// TestNodeDown checks that commands that need a dead or hanging master get an error in time, and
// never a wrong nil or count. Other keys are served if the cluster allows that. Everything works
// after the master is back.
func TestNodeDown(t *testing.T) {
	for _, coverage := range []string{"no", "yes"} {
		for _, how := range []string{"killed", "paused"} {
			t.Run(how+", full coverage "+coverage, func(t *testing.T) {
				t.Parallel()
				testNodeDown(t, how, coverage)
			})
		}
	}
}

func testNodeDown(t *testing.T, how, coverage string) {
	c := redistest.StartCluster(t,
		redistest.ClusterOptions{Args: []string{"--cluster-require-full-coverage", coverage}})
	l := proxytest.Start(t, c.Addrs(), func(o *proxytest.Options) { o.Upstream.UpstreamTimeout = downTimeout })
	client := l.Dial(t)
	client.Timeout = 30 * time.Second
	var keys []string
	for i := range 30 {
		keys = append(keys, proxytest.KeyOn(t, c, c.Nodes[i%3], fmt.Sprintf("k%d:", i)))
		client.Want(t, "+OK\r\n", "SET", keys[i], "old")
	}
	victim := c.Nodes[1]
	down, up := victim.Pause, victim.Resume
	if how == "killed" {
		down, up = victim.Kill, victim.Restart
	}
	if err := down(); err != nil {
		t.Fatal(err)
	}
	for _, round := range []string{"at once", "later", "in the end"} {
		for _, o := range runAll(t, l, wholeCommands(keys)) {
			if o.err != nil || !strings.HasPrefix(o.reply, "-UPSTREAMLOST ") &&
				!strings.HasPrefix(o.reply, "-UPSTREAMDOWN ") && !strings.HasPrefix(o.reply, "-CLUSTERDOWN ") {
				t.Errorf("%s, %s: got %.200q, %v, want an error", o.name, round, o.reply, o.err)
			}
			if o.took > downTimeout+downSlack {
				t.Errorf("%s, %s: took %v", o.name, round, o.took)
			}
		}
		if got := client.Reply(t, "SET", keys[0], "x"); got != "+OK\r\n" &&
			!(coverage == "yes" && strings.HasPrefix(got, "-CLUSTERDOWN ")) {
			t.Errorf("%s: a key of another node: %q", round, got)
		}
	}
	if err := up(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "every command works again", func() bool {
		return client.Reply(t, "FLUSHALL") == "+OK\r\n" && client.Reply(t, "DBSIZE") == ":0\r\n" &&
			client.Reply(t, wholeCommands(keys)["MSET"]...) == "+OK\r\n"
	})
	client.Want(t, fmt.Sprintf(":%d\r\n", len(keys)), append([]string{"EXISTS"}, keys...)...)
	if got := proxytest.ScanAll(t, 0, []*redistest.Client{client}); len(got) < len(keys) {
		t.Errorf("SCAN finds %d keys of %d", len(got), len(keys))
	}
}

// TestNodeDiesUnderLoad checks that replies in flight when a master dies or hangs arrive whole or
// become errors.
func TestNodeDiesUnderLoad(t *testing.T) {
	for _, how := range []string{"killed", "paused"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t,
				redistest.ClusterOptions{Args: []string{"--cluster-require-full-coverage", "no"}})
			l := proxytest.Start(t, c.Addrs(), func(o *proxytest.Options) { o.Upstream.UpstreamTimeout = downTimeout })
			keys := proxytest.Fill(t, l.Dial(t), "key", 300)
			var values strings.Builder
			for range keys {
				values.WriteString("$1\r\nv\r\n")
			}
			all300 := func(reply string) bool { return reply == ":300\r\n" }
			whole := map[string]func(reply string) bool{
				"MGET":   func(reply string) bool { return reply == "*300\r\n"+values.String() },
				"EXISTS": all300, "DBSIZE": all300, "SCAN": all300,
				"KEYS":      func(reply string) bool { return strings.HasPrefix(reply, "*300\r\n") },
				"RANDOMKEY": func(reply string) bool { return strings.Contains(reply, "key") },
			}
			var loading sync.WaitGroup
			var good, failed atomic.Int64
			stop := make(chan struct{})
			for name, isWhole := range whole {
				args := wholeCommands(keys)[name]
				client := l.Dial(t)
				client.Timeout = 30 * time.Second
				loading.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						reply, err := runOne(client, args)
						switch {
						case err == nil && isWhole(reply):
							good.Add(1)
						case err == nil && reply[0] == '-':
							failed.Add(1)
						default:
							t.Errorf("%s: got %.100q, %v", name, reply, err)
							return
						}
					}
				})
			}
			proxytest.Eventually(t, "there is load", func() bool { return good.Load() > 500 })
			down := c.Nodes[2].Pause
			if how == "killed" {
				down = c.Nodes[2].Kill
			}
			if err := down(); err != nil {
				t.Fatal(err)
			}
			before := good.Load()
			proxytest.Eventually(t, "all fail", func() bool { return failed.Load() > 50 })
			close(stop)
			loading.Wait()
			t.Logf("%d whole replies before, %d after, %d errors", before, good.Load()-before, failed.Load())
		})
	}
}
