package scan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"leash/internal/embedded"
	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/slots"
)

// TestWholeKeyspace checks that commands over all keys cover all masters.
func TestWholeKeyspace(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	for _, proto := range []string{"2", "3"} {
		client := l.Dial(t)
		client.Reply(t, "HELLO", proto)
		null := map[string]string{"2": "$-1\r\n", "3": "_\r\n"}[proto]
		client.Want(t, "+OK\r\n", "FLUSHALL")
		client.Want(t, ":0\r\n", "DBSIZE")
		client.Want(t, "*0\r\n", "KEYS", "*")
		client.Want(t, null, "RANDOMKEY")
		keys := proxytest.Fill(t, client, "k", 1000)
		client.Want(t, ":1000\r\n", "DBSIZE")
		slices.Sort(keys)
		got := proxytest.Bulks(client.Reply(t, "KEYS", "*"))
		slices.Sort(got)
		if !slices.Equal(got, keys) {
			t.Errorf("KEYS * gave %d keys, want %d", len(got), len(keys))
		}
		if got := proxytest.Bulks(client.Reply(t, "KEYS", "k11*")); len(got) != 11 {
			t.Errorf("KEYS k11* gave %q", got)
		}
		client.Want(t, "+OK\r\n", "FLUSHDB", "SYNC")
		client.Want(t, ":0\r\n", "DBSIZE")
		proxytest.Fill(t, client, "k", 10)
		client.Want(t, "+OK\r\n", "FLUSHALL", "ASYNC")
		for _, n := range c.Nodes {
			if size := n.Client().DBSize(t.Context()).Val(); size != 0 {
				t.Errorf("%d keys are left", size)
			}
		}
	}
}

// TestRandomKey checks that RANDOMKEY returns keys of all nodes in proportion to their number, and
// nil only if there is no key.
func TestRandomKey(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	few, many := proxytest.KeyOn(t, c, c.Nodes[0], "few"), 0
	client.Want(t, "+OK\r\n", "SET", few, "1")
	for range 200 {
		client.Want(t, fmt.Sprintf("$%d\r\n%s\r\n", len(few), few), "RANDOMKEY")
	}
	for i := range 9 {
		client.Want(t, "+OK\r\n", "SET", proxytest.KeyOn(t, c, c.Nodes[1], fmt.Sprintf("many%d:", i)), "1")
	}
	for range 500 {
		if got := client.Reply(t, "RANDOMKEY"); strings.Contains(got, "many") {
			many++
		} else if !strings.Contains(got, few) {
			t.Fatalf("RANDOMKEY: %q", got)
		}
	}
	if many < 400 || many == 500 {
		t.Errorf("%d of 500 from a node with nine of ten keys", many)
	}
	// A user without the right to DBSIZE gets keys too.
	for _, n := range c.Nodes {
		if err := n.Client().Do(t.Context(), "ACL", "SETUSER", "u", "on", ">p", "~*", "+randomkey").Err(); err != nil {
			t.Fatal(err)
		}
	}
	client.Want(t, "+OK\r\n", "AUTH", "u", "p")
	if got := client.Reply(t, "RANDOMKEY"); got[0] != '$' || got == "$-1\r\n" {
		t.Errorf("RANDOMKEY: %q", got)
	}
	if got := client.Reply(t, "DBSIZE"); !strings.HasPrefix(got, "-NOPERM ") {
		t.Errorf("DBSIZE: %q", got)
	}
}

// TestKeyspaceErrors checks that wrong arguments get Redis's errors.
func TestKeyspaceErrors(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 1})
	single := redistest.Start(t)
	for name, at := range map[string]struct{ leash, redis string }{
		"cluster":    {proxytest.Start(t, c.Addrs()).Addr, c.Addrs()[0]},
		"standalone": {proxytest.Start(t, []string{single.Addr}).Addr, single.Addr},
	} {
		client, redis := proxytest.Dial(t, at.leash), proxytest.Dial(t, at.redis)
		for _, args := range [][]string{
			{"KEYS"}, {"KEYS", "a", "b"}, {"DBSIZE", "x"}, {"RANDOMKEY", "x"}, {"FLUSHALL", "FOO"},
			{"FLUSHDB", "ASYNC", "SYNC"},
			{"SWAPDB"}, {"SWAPDB", "0", "1"}, {"SWAPDB", "0", "x"}, {"SWAPDB", "0", "99"}, {"MOVE", "k", "1"},
			{"MOVE", "k", "x"}, {"MOVE", "k"},
			{"COPY", "{k}1", "{k}2", "DB", "1"}, {"COPY", "{k}1", "{k}2", "DB", "99"}, {"COPY", "k", "k"},
		} {
			if got, wanted := client.Reply(t, args...), redis.Reply(t, args...); got != wanted {
				t.Errorf("%s: %q: got %q, redis says %q", name, args, got, wanted)
			}
		}
	}
}

// TestSwapDB checks that SWAPDB swaps the databases for all sessions.
func TestSwapDB(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	client, other := l.Dial(t), l.Dial(t)
	client.Want(t, "+OK\r\n", "SET", "k", "zero")
	other.Want(t, "+OK\r\n", "SELECT", "1")
	other.Want(t, "$-1\r\n", "GET", "k")
	client.Want(t, "+OK\r\n", "SWAPDB", "0", "1")
	client.Want(t, "$-1\r\n", "GET", "k")
	other.Want(t, "$4\r\nzero\r\n", "GET", "k")
	other.Want(t, ":1\r\n", "MOVE", "k", "0")
	client.Want(t, "$4\r\nzero\r\n", "GET", "k")
	client.Want(t, ":1\r\n", "COPY", "k", "k", "DB", "1")
	other.Want(t, "$4\r\nzero\r\n", "GET", "k")
	client.Want(t, "+OK\r\n", "FLUSHDB")
	other.Want(t, ":1\r\n", "DBSIZE")
}

// TestKeysOfMigratingSlots checks that keys on a node that owns no slot yet are counted. A session
// goes on if that node does not know its user.
func TestKeysOfMigratingSlots(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	for _, n := range c.Nodes {
		if err := n.Client().Do(t.Context(), "ACL", "SETUSER", "u", "on", ">p", "~*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
	l := proxytest.Start(t, c.Addrs())
	client, user := l.Dial(t), l.Dial(t)
	user.Want(t, "+OK\r\n", "AUTH", "u", "p")
	for i := range 100 {
		client.Want(t, "+OK\r\n", "SET", fmt.Sprintf("{t}%d", i), "v")
	}
	late, err := c.AddMaster()
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.BeginMove(int(slots.Of([]byte("{t}"))), late)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.MoveKeys(60); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "all keys are counted", func() bool { return client.Reply(t, "DBSIZE") == ":100\r\n" })
	if got := proxytest.Bulks(client.Reply(t, "KEYS", "*")); len(got) != 100 {
		t.Errorf("KEYS gave %d keys", len(got))
	}
	if got := user.Reply(t, "DBSIZE"); got[0] != '-' {
		t.Errorf("DBSIZE of a user that one node does not know: %q", got)
	}
	user.Want(t, "$-1\r\n", "GET", "elsewhere")
	client.Want(t, "+OK\r\n", "FLUSHALL")
	if n := late.Client().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	if _, err := m.MoveKeys(-1); err != nil {
		t.Fatal(err)
	}
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
	client.Want(t, ":0\r\n", "DBSIZE")
}

// TestKeyspaceOfEmbeddedRedis checks that the embedded Redis serves these commands as far as it can
// and refuses the others.
func TestKeyspaceOfEmbeddedRedis(t *testing.T) {
	redis, err := embedded.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	l := proxytest.Start(t, []string{redis.Addr()})
	client := l.Dial(t)
	keys := proxytest.Fill(t, client, "k", 100)
	client.Want(t, ":100\r\n", "DBSIZE")
	wantKeys(t, proxytest.ScanAll(t, 0, []*redistest.Client{client}, "COUNT", "7"), keys)
	if got := proxytest.Bulks(client.Reply(t, "KEYS", "k1*")); len(got) != 11 {
		t.Errorf("KEYS: %q", got)
	}
	if got := client.Reply(t, "RANDOMKEY"); !strings.Contains(got, "k") {
		t.Errorf("RANDOMKEY: %q", got)
	}
	script := "return redis.call('GET', KEYS[1])"
	client.Want(t, "$40\r\n"+proxytest.Digest(script)+"\r\n", "SCRIPT", "LOAD", script)
	client.Want(t, "*1\r\n:1\r\n", "SCRIPT", "EXISTS", proxytest.Digest(script))
	client.Want(t, "$1\r\nv\r\n", "EVALSHA", proxytest.Digest(script), "1", "k1")
	client.Want(t, "+OK\r\n", "SCRIPT", "FLUSH")
	client.Want(t, "+OK\r\n", "SWAPDB", "0", "1")
	client.Want(t, ":0\r\n", "DBSIZE")
	client.Want(t, "+OK\r\n", "SWAPDB", "0", "1")
	for _, args := range [][]string{{"SCRIPT", "KILL"}, {"FUNCTION", "KILL"}, {"FUNCTION", "LIST"},
		{"FCALL", "f", "0"}, {"SCAN", "x"}} {
		if got := client.Reply(t, args...); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%q: %q", args, got)
		}
	}
	client.Want(t, "+OK\r\n", "FLUSHDB")
	client.Want(t, "+OK\r\n", "FLUSHALL", "ASYNC")
	client.Want(t, ":0\r\n", "DBSIZE")
}
