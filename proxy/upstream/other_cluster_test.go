package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/resp"
)

// view is what a node says: the ids of its cluster's nodes, the master, and its last slot.
type view struct {
	ids    []string
	master string
	last   int
	mode   string
}

// answer is the reply of a node that has this view.
func (v view) answer(args []string) string {
	switch {
	case args[0] == "CONFIG":
		return "*0\r\n"
	case args[0] == "INFO":
		return string(resp.AppendBulk(nil, "redis_mode:"+v.mode+"\r\n"))
	case args[0] != "CLUSTER":
		return "+OK\r\n"
	case v.mode == "standalone":
		return "-ERR This instance has cluster support disabled\r\n"
	case args[1] == "NODES":
		var nodes []byte
		for i, id := range v.ids {
			nodes = fmt.Appendf(nodes, "%s 127.0.0.1:%d@1 master - 0 0 1 connected\n", id, i+1)
		}
		return string(resp.AppendBulk(nil, string(nodes)))
	}
	host, port, _ := net.SplitHostPort(v.master)
	return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:%d\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", v.last, len(host), host, port)
}

// foreignCounter is a log handler that counts the lines about nodes that do not know the cluster.
type foreignCounter struct {
	slog.Handler
	n atomic.Int64
}

func (c *foreignCounter) Enabled(context.Context, slog.Level) bool { return true }

func (c *foreignCounter) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "a redis node does not know this cluster" {
		c.n.Add(1)
	}
	return nil
}

// TestOtherClusterIsNotFollowed checks that Leash stays with its cluster when one of the addresses
// that it knows belongs to another cluster, or to a node that does not know the whole cluster yet.
// The log says so once. If all of its nodes have become another cluster, it follows.
func TestOtherClusterIsNotFollowed(t *testing.T) {
	ours := view{[]string{"a", "b", "c"}, "127.0.0.1:1", 16383, "cluster"}
	others := map[string]view{
		"another cluster":              {[]string{"x", "y", "z"}, "127.0.0.1:2", 16383, "cluster"},
		"another cluster, with a node": {[]string{"x", "y", "z", "a"}, "127.0.0.1:2", 16383, "cluster"},
		"a new node":                   {[]string{"a", "d"}, "127.0.0.1:2", 5460, "cluster"},
		"some slots only":              {[]string{"a", "b", "c", "d"}, "127.0.0.1:2", 5460, "cluster"},
	}
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			var views [2]atomic.Pointer[view]
			var addrs []string
			for i := range views {
				views[i].Store(&ours)
				f := redistest.StartFake(t, func(args []string) string { return views[i].Load().answer(args) })
				addrs = append(addrs, f.Addr)
			}
			counter := foreignCounter{Handler: slog.DiscardHandler}
			u, err := New(Config{Addrs: addrs, Mode: "cluster"}, slog.New(&counter))
			if err != nil {
				t.Fatal(err)
			}
			defer u.Nodes.End()
			master := func() string {
				if err := u.discover(t.Context(), time.Now()); err != nil {
					t.Fatal(err)
				}
				return u.Topology().Masters()[0].Addr
			}
			master()
			views[1].Store(&other)
			for range 20 { // each asks in an order of its own
				if m := master(); m != ours.master {
					t.Fatalf("the master is %s, want that of the own cluster", m)
				}
			}
			if n := counter.n.Load(); n > 1 {
				t.Errorf("the log says %d times that a node does not know the cluster", n)
			}
			views[0].Store(&other)
			if m := master(); m != other.master {
				t.Errorf("the master is %s, want the only one that is known", m)
			}
		})
	}
}

// TestForeignRedisGetsNoCommands checks that Leash sends nothing to another Redis that has got the
// address of a node, and that it uses the node again when that is back.
func TestForeignRedisGetsNoCommands(t *testing.T) {
	for name, foreign := range map[string]view{
		"a single Redis": {mode: "standalone"}, "another cluster": {[]string{"x"}, "127.0.0.1:2", 16383, "cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Pointer[view]
			var ends atomic.Bool
			f := redistest.StartFake(t, func(args []string) string { return now.Load().answer(args) })
			f.Ping = func() string {
				if ends.Load() {
					return ""
				}
				return "+PONG\r\n"
			}
			ours := view{[]string{"a", "b"}, f.Addr, 16383, "cluster"}
			now.Store(&ours)
			addrs := []string{f.Addr, redistest.StartFake(t, ours.answer).Addr}
			u, err := New(Config{Addrs: addrs}, slog.New(slog.DiscardHandler))
			if err == nil {
				err = u.Connect(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			defer u.Nodes.End()
			send := func(word string) error {
				set := resp.AppendCommand(nil, "SET", "k", word)
				_, _, err := u.Script(time.Now().Add(time.Second), nil, 0, 0, set, nil)
				return err
			}
			sendSoon := func(word string) {
				for until := time.Now().Add(time.Minute); send(word) != nil; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(until) {
						t.Fatal("it gets nothing")
					}
				}
			}
			sendSoon("before")
			ended := f.Ended.Load()
			now.Store(&foreign)
			ends.Store(true)
			u.NodeOf(0).DropScripts(0)
			for f.Ended.Load() < ended+2 { // that of the watch, and that for scripts
				time.Sleep(time.Millisecond)
			}
			ends.Store(false)
			for range 20 {
				if send("foreign") == nil {
					t.Fatal("the other Redis has got a command")
				}
				time.Sleep(10 * time.Millisecond)
			}
			auth := resp.AppendCommand(nil, "AUTH", "foreign")
			if _, _, err := u.Authenticate(t.Context(), auth, "", nil); err == nil {
				t.Error("the other Redis was asked about a password")
			}
			now.Store(&ours)
			sendSoon("after")
			if strings.Contains(f.Commands(), "foreign") {
				t.Error("the other Redis has got a command")
			}
		})
	}
}

// TestConnectRefusesAddrsOfSeveral checks that Leash does not start between two clusters, or with
// the address of a Redis that is in no cluster. A node that does not answer, and one that has just
// joined, do no harm.
func TestConnectRefusesAddrsOfSeveral(t *testing.T) {
	node := func(v view) string { return redistest.StartFake(t, v.answer).Addr }
	ours := view{[]string{"a", "b", "c"}, "127.0.0.1:1", 16383, "cluster"}
	own := node(ours)
	for name, c := range map[string]struct {
		other   string
		refused bool
	}{
		"the same cluster": {node(ours), false},
		"a new node":       {node(view{[]string{"d", "a"}, "127.0.0.1:2", 5460, "cluster"}), false},
		"no node":          {"127.0.0.1:1", false},
		"another cluster":  {node(view{[]string{"x", "y", "z"}, "127.0.0.1:2", 16383, "cluster"}), true},
		"a single Redis":   {node(view{mode: "standalone"}), true},
	} {
		for range 5 { // each asks in an order of its own
			err := connectTo(t, "", own, c.other)
			if refused := errors.Is(err, errNotOneCluster); refused != c.refused || !c.refused && err != nil {
				t.Errorf("%s: %v, want it refused: %v", name, err, c.refused)
			}
		}
	}
	single := view{mode: "standalone"}
	if err := connectTo(t, "standalone", node(single), node(single)); !errors.Is(err, errNotOneCluster) {
		t.Errorf("two without a cluster: %v", err)
	}
}

// connectTo returns the error of Connect in a mode.
func connectTo(t *testing.T, mode string, addrs ...string) error {
	u, err := New(Config{Addrs: addrs, Mode: mode}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer u.Nodes.End()
	return u.Connect(t.Context())
}
