package docscheck

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// TestExchanges runs the blocks that are marked `leash`: lines that begin with "> " are commands,
// and the other lines are what redis-cli prints for them. Each page has a Redis and a Leash of its
// own, and each block a connection of its own.
func TestExchanges(t *testing.T) {
	binary := leashtest.Binary(t)
	ran := 0
	for _, p := range pages(t) {
		var blocks []block
		for _, b := range p.blocks {
			if b.lang == "leash" {
				blocks = append(blocks, b)
			}
		}
		if len(blocks) == 0 {
			continue
		}
		ran += len(blocks)
		t.Run(p.path, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			leash, err := leashtest.Start(t.Context(), binary, t.TempDir(), "--upstream", redis.Addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(leash.Kill)
			for _, b := range blocks {
				if problem := exchange(leash.Addr, b); problem != "" {
					t.Errorf("%s:%d: %s", p.path, b.number, problem)
				}
			}
		})
	}
	if ran == 0 {
		t.Error("no page has a block that is marked leash")
	}
}

// TestExchangeProblems: a difference between a page and an exchange is reported.
func TestExchangeProblems(t *testing.T) {
	redis := redistest.Start(t)
	for text, want := range map[string]string{
		"> SET k 1\nOK\n> GET k\n\"1\"":                                   "",
		"> RPUSH l a b\n(integer) 2\n> LRANGE l 0 -1\n1) \"a\"\n2) \"b\"": "",
		"> SET n 1790000000123456\nOK\n> INCR n\n(integer) 1234567890123": "",
		"> GET none\n(nil)\n> LPUSH none":                                 "prints (error) ERR wrong number",
		"> BLPOP none 0.6\n(nil)\n> GET none\n(nil)":                      "",
		"> GET none":               "prints (nil)",
		"> GET none\n(nil)\n(nil)": "prints nothing more",
		"OK":                       "no command",
		"> SET n 17\nOK\n> GET n\n\"1790000000123456\"": "prints \"17\"",
	} {
		got := exchange(redis.Addr, block{lines: strings.Split(text, "\n")})
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// exchangeTimeout bounds a block. A block may wait for a lock.
const exchangeTimeout = 30 * time.Second

// exchange runs a block on a connection of its own and returns what differs. The last command is
// RESET, so that the locks of one block are released before the next one begins.
func exchange(addr string, b block) (problem string) {
	var commands, want []string
	for _, l := range b.lines {
		if command, ok := strings.CutPrefix(l, "> "); ok {
			commands = append(commands, command)
		} else {
			want = append(want, l)
		}
	}
	if len(commands) == 0 {
		return "no command in the block"
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err.Error()
	}
	cli := exec.Command("redis-cli", "--no-raw", "-h", host, "-p", port)
	cli.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\nRESET\n")
	var out bytes.Buffer
	cli.Stdout, cli.Stderr = &out, &out
	timer := time.AfterFunc(exchangeTimeout, func() { _ = cli.Process.Kill() })
	defer timer.Stop()
	if err := cli.Run(); err != nil {
		return fmt.Sprintf("redis-cli: %v: %s", err, out.String())
	}
	text := elapsed.ReplaceAllString(out.String(), "")
	got := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if got[len(got)-1] == "RESET" {
		got = got[:len(got)-1]
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("the page has %q, and redis-cli prints nothing more", want[i])
		case i >= len(want):
			return fmt.Sprintf("the page ends, and redis-cli prints %s", got[i])
		case comparableLine(got[i]) != comparableLine(want[i]):
			return fmt.Sprintf("the page has %q, and redis-cli prints %s", want[i], got[i])
		}
	}
	return ""
}

// elapsed is a line that redis-cli adds to a reply that took half a second or more. That can happen
// on a busy machine.
var elapsed = regexp.MustCompile(`(?m)^\(\d+\.\d+s\)\n`)

// varying matches what differs between two runs: tokens, times, permits, ids of Leashes, ports.
var varying = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "<id>"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "<permit>"},
	{regexp.MustCompile(`\b\d{13,}\b`), "<token>"},
	{regexp.MustCompile(`\b127\.0\.0\.1:\d+`), "<address>"},
}

// comparableLine is a line without what differs between two runs.
func comparableLine(l string) string {
	l = strings.TrimRight(l, " ")
	for _, v := range varying {
		l = v.pattern.ReplaceAllString(l, v.name)
	}
	return l
}
