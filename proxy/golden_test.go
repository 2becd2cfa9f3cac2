package proxy_test

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/embedded"
	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// quiet is how long a connection must be silent before a round ends, when writing.
const quiet = 150 * time.Millisecond

// golden is one server under test.
type golden struct {
	name, addr string
	behind     []*redis.Client
}

func goldenServers(t *testing.T) (all []golden) {
	plain, behind := redistest.Start(t), redistest.Start(t)
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	memory, err := embedded.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(memory.Close)
	inMemory := redis.NewClient(&redis.Options{Addr: memory.Addr(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { inMemory.Close() })
	clients := func(servers ...*redistest.Server) (c []*redis.Client) {
		for _, s := range servers {
			c = append(c, s.Client())
		}
		return c
	}
	nodes := servers(cluster)
	return []golden{
		{"redis", plain.Addr, clients(plain)},
		{"standalone", proxytest.Start(t, []string{behind.Addr}).Addr, clients(behind)},
		{"cluster", proxytest.Start(t, addrs(nodes)).Addr, clients(nodes...)},
		{"embedded", proxytest.Start(t, []string{memory.Addr()}, func(o *proxytest.Options) { o.Embedded = true }).Addr,
			[]*redis.Client{inMemory}},
	}
}

var update = flag.Bool("update", false, "write the transcripts in testdata anew")

// TestGoldenTranscripts runs testdata against Redis, which shows that it is right, and against
// Leash in front of each kind of upstream.
func TestGoldenTranscripts(t *testing.T) {
	t.Parallel()
	targets := goldenServers(t)
	for _, path := range transcriptFiles(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all, err := parseTranscripts(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if *update {
			for _, tr := range all {
				tr.split()
				for _, g := range targets {
					if tr.not[g.name] == "" {
						g.play(t, tr, true)
						break
					}
				}
			}
			if err := os.WriteFile(path, []byte(format(all)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, g := range targets {
			for _, tr := range all {
				if tr.not[g.name] == "" {
					name := strings.TrimSuffix(filepath.Base(path), ".txt") + "/" + g.name + "/" + tr.title
					t.Run(name, func(t *testing.T) { g.play(t, tr, false) })
				}
			}
		}
	}
}

// play runs the dialogue. When writing, the replies replace those that differ.
func (g golden) play(t *testing.T, tr *dialogue, write bool) {
	g.empty(t)
	conns := map[string]*redistest.Client{}
	for i := range tr.rounds {
		r := &tr.rounds[i]
		c := conns[r.conn]
		if c == nil {
			c = proxytest.Dial(t, g.addr)
			defer c.Close()
			conns[r.conn] = c
		}
		if err := c.Send(r.raw); err != nil {
			t.Fatalf("%v: %v", r.sent, err)
		}
		got := r.read(c, write)
		switch {
		case allFit(r.replies, got):
		case write:
			r.replies = got
		default:
			t.Fatalf("%s\ngot\n  %s\nwant\n  %s", strings.Join(r.sent, "\n"), strings.Join(got, "\n  "),
				strings.Join(r.replies, "\n  "))
		}
	}
}

// read returns lines of replies: the expected number, or all of them when writing.
func (r *round) read(c *redistest.Client, write bool) (lines []string) {
	for write || len(lines) < len(r.replies) {
		c.Timeout = 0
		if write {
			c.Timeout = quiet
		}
		raw, err := c.Read()
		lines = append(lines, asLines(raw)...)
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return append(lines, closedLine)
		}
		if err != nil {
			return lines
		}
	}
	return lines
}

// empty deletes data, scripts and functions.
func (g golden) empty(t *testing.T) {
	t.Helper()
	for _, c := range g.behind {
		if err := c.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		c.ScriptFlush(t.Context())
		c.FunctionFlush(t.Context()) // which the embedded one does not know
	}
}
