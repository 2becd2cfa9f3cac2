package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// askCLI runs redis-cli against Leash and returns its output.
func askCLI(t *testing.T, l *proxytest.Leash, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, port, _ := net.SplitHostPort(l.Addr)
	cmd := exec.CommandContext(ctx, "redis-cli", append([]string{"-p", port}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("redis-cli %q hangs: %s, %v", args, out, err)
	}
	return string(out)
}

// TestRedisCLI runs redis-cli in its modes in front of a cluster.
func TestRedisCLI(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, redistest.StartCluster(t).Addrs())
	var fill strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&fill, "SET key:%d value\r\n", i)
	}
	dump := filepath.Join(t.TempDir(), "dump")
	for _, mode := range []struct {
		args, stdin string
		want        []string // patterns
	}{
		{"--pipe", fill.String(), []string{`errors: 0, replies: 1000`}},
		{"HSET hash f v", "", []string{`^1\n$`}},
		{"", "LPUSH list \"a b\" 'c' \"\\x41\"\nLRANGE list 0 -1\nNOSUCH\n",
			[]string{`(?s)^3\nA\nc\na b\nERR unknown command 'NOSUCH', with args beginning with: \n`}},
		{"-3 HGETALL hash", "", []string{`^f v\n$`}},
		{"-3 --json HGETALL hash", "", []string{`^\{"f":"v"\}\n$`}},
		{"-c GET key:7", "", []string{`^value\n$`}},
		{"-x SET stdin", "from stdin", []string{`^OK\n$`}},
		{"-r 3 INCR counter", "", []string{`^1\n2\n3\n$`}},
		{"--eval /dev/stdin key:7 , x", "return {KEYS[1], ARGV[1]}", []string{`^key:7\nx\n$`}},
		{"--bigkeys", "", []string{`Sampled 1004 keys`, `Biggest\s+hash found '"hash"' has 1 fields`, `1002 strings`}},
		{"--memkeys", "", []string{`Sampled 1004 keys`, `Biggest\s+list found '"list"' has \d+ bytes`}},
		{"--hotkeys", "", []string{`Error: ERR An LFU maxmemory policy is not selected`}},
		{"--scan --pattern key:99*", "", []string{`(?s)^(key:99\d?\n){11}$`}},
		{"--latency", "", []string{`^\d+ \d+ [\d.]+ \d+\n$`}},
		{"--cluster check ADDR", "", []string{`1004 keys in 1 masters`, `All nodes agree about slots configuration`,
			`All 16384 slots covered`}},
		{"--cluster info ADDR", "", []string{`1004 keys \| 16384 slots \| 0 slaves`}},
		{"--cluster call ADDR DBSIZE", "", []string{`: 1004\n`}},
		{"--cluster add-node 127.0.0.1:1 ADDR", "", []string{`Could not connect`}},
		{"--rdb " + dump, "", []string{`SYNC with master failed: -ERR 'sync' is refused by leash`}},
		{"--functions-rdb " + dump, "", []string{`Failed requesting functions only RDB from server`}},
		{"--replica", "", []string{`SYNC with master failed: -ERR 'sync' is refused by leash`}},
		{"--ldb --eval /dev/stdin", "return 1", []string{`\n1\n$`}},
		{"ACL WHOAMI", "", []string{`^default\n$`}},
		{"CLIENT LIST", "", []string{`^id=\d+ addr=127.0.0.1:\d+ laddr=\S+ fd=\d+ name= age=\d+ idle=\d+ flags=N .* cmd=client\|list user=default `}},
	} {
		args := strings.Fields(strings.ReplaceAll(mode.args, "ADDR", l.Addr))
		out := askCLI(t, l, mode.stdin, args...)
		for _, pattern := range mode.want {
			if !regexp.MustCompile(pattern).MatchString(out) {
				t.Errorf("redis-cli %s: %q has no %q", mode.args, out, pattern)
			}
		}
	}
}

// TestRedisCLIContinuousModes runs the modes of redis-cli that end only when they are stopped.
func TestRedisCLIContinuousModes(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, redistest.StartCluster(t).Addrs())
	_, port, _ := net.SplitHostPort(l.Addr)
	client := l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", "k", "v")
	for _, mode := range []struct{ args, want string }{
		// its first line, which "watched" may fall into
		{"--stat -i 0.1", `(?s)keys .*\n[12]\s+\d+\.\d+[KMG]\s+\d+\s+0\s+\d+ \(\+0\)`},
		{"--latency-history -i 1", `\d+ \d+ [\d.]+ \d+`},
		{"MONITOR", `(?s)OK\n.*"SET" "watched" "v"`},
		{"SUBSCRIBE news", `subscribe\nnews\n1\n.*message\nnews\nhello`},
		{"-3 SUBSCRIBE news", `subscribe\nnews\n1\n.*message\nnews\nhello`},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		cmd := exec.CommandContext(ctx, "stdbuf", append([]string{"-o0", "redis-cli", "-p", port},
			strings.Fields(mode.args)...)...)
		out := &proxytest.LogBuffer{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "redis-cli "+mode.args+" shows what it shall", func() bool {
			client.Reply(t, "SET", "watched", "v")
			client.Reply(t, "DEL", "watched")
			client.Reply(t, "PUBLISH", "news", "hello")
			return regexp.MustCompile("(?s)" + mode.want).MatchString(out.String())
		})
		cancel()
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("%s", bytes.TrimSpace([]byte(out.String())))
		}
	}
}
