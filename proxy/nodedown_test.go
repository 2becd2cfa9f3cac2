package proxy

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// downTimeout is --upstream-timeout in these tests, and downSlack what a busy
// machine may add.
const (
	downTimeout = 3 * time.Second
	downSlack   = 1500 * time.Millisecond
)

// wholeCommands need every master; keys are some of each.
func wholeCommands(keys []string) map[string][]string {
	pairs := []string{"MSET"}
	for _, key := range keys {
		pairs = append(pairs, key, "new")
	}
	return map[string][]string{
		"MGET": append([]string{"MGET"}, keys...), "EXISTS": append([]string{"EXISTS"}, keys...), "TOUCH": append([]string{"TOUCH"}, keys...),
		"MSET": pairs, "DBSIZE": {"DBSIZE"}, "KEYS": {"KEYS", "*"}, "RANDOMKEY": {"RANDOMKEY"}, "SCAN": {"SCAN", "0", "COUNT", "1000"},
		"SCRIPT LOAD": {"SCRIPT", "LOAD", "return 1"}, "SCRIPT EXISTS": {"SCRIPT", "EXISTS", digest("return 1")}, "SCRIPT FLUSH": {"SCRIPT", "FLUSH"},
		"SCRIPT KILL": {"SCRIPT", "KILL"}, "FUNCTION FLUSH": {"FUNCTION", "FLUSH"},
		"FLUSHALL": {"FLUSHALL"}, "FLUSHDB": {"FLUSHDB"}, "DEL": append([]string{"DEL"}, keys...), "UNLINK": append([]string{"UNLINK"}, keys...),
	}
}

// outcome is how a command ended and after how long.
type outcome struct {
	name, reply string
	err         error
	took        time.Duration
}

// scanToEnd repeats SCAN until an error or the end, of which it returns the reply.
func scanToEnd(client *redistest.Client, args []string) (string, error) {
	for {
		reply, err := client.Do(args...)
		next, _, ok := parseScanReply([]byte(reply))
		if err != nil || !ok || next == 0 {
			return reply, err
		}
		args = append([]string{"SCAN", strconv.FormatUint(next, 10)}, args[2:]...)
	}
}

// runAll runs commands at once, each on a connection of its own.
func runAll(t *testing.T, l *leash, commands map[string][]string) (all []outcome) {
	t.Helper()
	done := make(chan outcome)
	for name, args := range commands {
		client := l.dial(t)
		client.Timeout = 30 * time.Second
		go func() {
			o := outcome{name: name}
			start := time.Now()
			if name == "SCAN" {
				o.reply, o.err = scanToEnd(client, args)
			} else {
				o.reply, o.err = client.Do(args...)
			}
			o.took = time.Since(start)
			done <- o
		}()
	}
	for range commands {
		all = append(all, <-done)
	}
	return all
}

// TestNodeDown: while a master is dead or hangs, what needs it is answered with
// an error and in time; there is no wrong nil and no short count. Keys of the
// others are served if the cluster allows that, and all is well when it is back.
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
	c := redistest.StartCluster(t, redistest.ClusterOptions{Args: []string{"--cluster-require-full-coverage", coverage}})
	l := startLeash(t, c.Addrs(), func(o *options) { o.up.UpstreamTimeout = downTimeout })
	client := l.dial(t)
	client.Timeout = 30 * time.Second
	var keys []string
	for i := range 30 {
		keys = append(keys, keyOn(t, c, c.Nodes[i%3], fmt.Sprintf("k%d:", i)))
		want(t, client, "+OK\r\n", "SET", keys[i], "old")
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
			if o.err != nil || !strings.HasPrefix(o.reply, "-UPSTREAMLOST ") && !strings.HasPrefix(o.reply, "-UPSTREAMDOWN ") && !strings.HasPrefix(o.reply, "-CLUSTERDOWN ") {
				t.Errorf("%s, %s: got %.200q, %v, want an error", o.name, round, o.reply, o.err)
			}
			if o.took > downTimeout+downSlack {
				t.Errorf("%s, %s: took %v", o.name, round, o.took)
			}
		}
		if got := do(t, client, "SET", keys[0], "x"); got != "+OK\r\n" && !(coverage == "yes" && strings.HasPrefix(got, "-CLUSTERDOWN ")) {
			t.Errorf("%s: a key of another node: %q", round, got)
		}
	}
	if err := up(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is well again", func() bool {
		return do(t, client, "FLUSHALL") == "+OK\r\n" && do(t, client, "DBSIZE") == ":0\r\n" && do(t, client, wholeCommands(keys)["MSET"]...) == "+OK\r\n"
	})
	want(t, client, fmt.Sprintf(":%d\r\n", len(keys)), append([]string{"EXISTS"}, keys...)...)
	if got := scanAll(t, 0, []*redistest.Client{client}); len(got) < len(keys) {
		t.Errorf("SCAN finds %d keys of %d", len(got), len(keys))
	}
}
