package proxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"leash/internal/embedded"
	"leash/internal/redistest"
	"leash/proxy/slots"
)

// bulks returns the elements of a flat list of bulk strings.
func bulks(reply string) (all []string) {
	lines := strings.Split(reply, "\r\n")
	for i := 1; i+1 < len(lines); i += 2 {
		all = append(all, lines[i+1])
	}
	return all
}

// fill sets n keys with a prefix and returns them.
func fill(t testing.TB, c *redistest.Client, prefix string, n int) (keys []string) {
	t.Helper()
	for i := range n {
		keys = append(keys, prefix+strconv.Itoa(i))
	}
	for chunk := range slices.Chunk(keys, 500) {
		var raw strings.Builder
		for _, key := range chunk {
			raw.WriteString(redistest.Command("SET", key, "v"))
		}
		go func() { _ = c.Send(raw.String()) }()
		for range chunk {
			if got, err := c.Read(); got != "+OK\r\n" || err != nil {
				t.Fatal(got, err)
			}
		}
	}
	return keys
}

// TestWholeKeyspace checks that commands over all keys cover all masters.
func TestWholeKeyspace(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := startLeash(t, c.Addrs())
	for _, proto := range []string{"2", "3"} {
		client := l.dial(t)
		do(t, client, "HELLO", proto)
		null := map[string]string{"2": "$-1\r\n", "3": "_\r\n"}[proto]
		want(t, client, "+OK\r\n", "FLUSHALL")
		want(t, client, ":0\r\n", "DBSIZE")
		want(t, client, "*0\r\n", "KEYS", "*")
		want(t, client, null, "RANDOMKEY")
		keys := fill(t, client, "k", 1000)
		want(t, client, ":1000\r\n", "DBSIZE")
		slices.Sort(keys)
		got := bulks(do(t, client, "KEYS", "*"))
		slices.Sort(got)
		if !slices.Equal(got, keys) {
			t.Errorf("KEYS * gave %d keys, want %d", len(got), len(keys))
		}
		if got := bulks(do(t, client, "KEYS", "k11*")); len(got) != 11 {
			t.Errorf("KEYS k11* gave %q", got)
		}
		want(t, client, "+OK\r\n", "FLUSHDB", "SYNC")
		want(t, client, ":0\r\n", "DBSIZE")
		fill(t, client, "k", 10)
		want(t, client, "+OK\r\n", "FLUSHALL", "ASYNC")
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
	l := startLeash(t, c.Addrs())
	client := l.dial(t)
	few, many := keyOn(t, c, c.Nodes[0], "few"), 0
	want(t, client, "+OK\r\n", "SET", few, "1")
	for range 200 {
		want(t, client, fmt.Sprintf("$%d\r\n%s\r\n", len(few), few), "RANDOMKEY")
	}
	for i := range 9 {
		want(t, client, "+OK\r\n", "SET", keyOn(t, c, c.Nodes[1], fmt.Sprintf("many%d:", i)), "1")
	}
	for range 500 {
		if got := do(t, client, "RANDOMKEY"); strings.Contains(got, "many") {
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
	want(t, client, "+OK\r\n", "AUTH", "u", "p")
	if got := do(t, client, "RANDOMKEY"); got[0] != '$' || got == "$-1\r\n" {
		t.Errorf("RANDOMKEY: %q", got)
	}
	if got := do(t, client, "DBSIZE"); !strings.HasPrefix(got, "-NOPERM ") {
		t.Errorf("DBSIZE: %q", got)
	}
}

// TestKeyspaceErrors checks that wrong arguments get Redis's errors.
func TestKeyspaceErrors(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 1})
	single := redistest.Start(t)
	for name, at := range map[string]struct{ leash, redis string }{
		"cluster":    {startLeash(t, c.Addrs()).addr, c.Addrs()[0]},
		"standalone": {startLeash(t, []string{single.Addr}).addr, single.Addr},
	} {
		client, redis := dialAddr(t, at.leash), dialAddr(t, at.redis)
		for _, args := range [][]string{
			{"KEYS"}, {"KEYS", "a", "b"}, {"DBSIZE", "x"}, {"RANDOMKEY", "x"}, {"FLUSHALL", "FOO"},
			{"FLUSHDB", "ASYNC", "SYNC"},
			{"SWAPDB"}, {"SWAPDB", "0", "1"}, {"SWAPDB", "0", "x"}, {"SWAPDB", "0", "99"}, {"MOVE", "k", "1"},
			{"MOVE", "k", "x"}, {"MOVE", "k"},
			{"COPY", "{k}1", "{k}2", "DB", "1"}, {"COPY", "{k}1", "{k}2", "DB", "99"}, {"COPY", "k", "k"},
		} {
			if got, wanted := do(t, client, args...), do(t, redis, args...); got != wanted {
				t.Errorf("%s: %q: got %q, redis says %q", name, args, got, wanted)
			}
		}
	}
}

// TestSwapDB checks that SWAPDB swaps the databases for all sessions.
func TestSwapDB(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	client, other := l.dial(t), l.dial(t)
	want(t, client, "+OK\r\n", "SET", "k", "zero")
	want(t, other, "+OK\r\n", "SELECT", "1")
	want(t, other, "$-1\r\n", "GET", "k")
	want(t, client, "+OK\r\n", "SWAPDB", "0", "1")
	want(t, client, "$-1\r\n", "GET", "k")
	want(t, other, "$4\r\nzero\r\n", "GET", "k")
	want(t, other, ":1\r\n", "MOVE", "k", "0")
	want(t, client, "$4\r\nzero\r\n", "GET", "k")
	want(t, client, ":1\r\n", "COPY", "k", "k", "DB", "1")
	want(t, other, "$4\r\nzero\r\n", "GET", "k")
	want(t, client, "+OK\r\n", "FLUSHDB")
	want(t, other, ":1\r\n", "DBSIZE")
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
	l := startLeash(t, c.Addrs())
	client, user := l.dial(t), l.dial(t)
	want(t, user, "+OK\r\n", "AUTH", "u", "p")
	for i := range 100 {
		want(t, client, "+OK\r\n", "SET", fmt.Sprintf("{t}%d", i), "v")
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
	eventually(t, "all keys are counted", func() bool { return do(t, client, "DBSIZE") == ":100\r\n" })
	if got := bulks(do(t, client, "KEYS", "*")); len(got) != 100 {
		t.Errorf("KEYS gave %d keys", len(got))
	}
	if got := do(t, user, "DBSIZE"); got[0] != '-' {
		t.Errorf("DBSIZE of a user that one node does not know: %q", got)
	}
	want(t, user, "$-1\r\n", "GET", "elsewhere")
	want(t, client, "+OK\r\n", "FLUSHALL")
	if n := late.Client().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	if _, err := m.MoveKeys(-1); err != nil {
		t.Fatal(err)
	}
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
	want(t, client, ":0\r\n", "DBSIZE")
}

// TestKeyspaceOfEmbeddedRedis checks that the embedded Redis serves these commands as far as it can
// and refuses the others.
func TestKeyspaceOfEmbeddedRedis(t *testing.T) {
	redis, err := embedded.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	l := startLeash(t, []string{redis.Addr()})
	client := l.dial(t)
	keys := fill(t, client, "k", 100)
	want(t, client, ":100\r\n", "DBSIZE")
	wantKeys(t, scanAll(t, 0, []*redistest.Client{client}, "COUNT", "7"), keys)
	if got := bulks(do(t, client, "KEYS", "k1*")); len(got) != 11 {
		t.Errorf("KEYS: %q", got)
	}
	if got := do(t, client, "RANDOMKEY"); !strings.Contains(got, "k") {
		t.Errorf("RANDOMKEY: %q", got)
	}
	script := "return redis.call('GET', KEYS[1])"
	want(t, client, "$40\r\n"+digest(script)+"\r\n", "SCRIPT", "LOAD", script)
	want(t, client, "*1\r\n:1\r\n", "SCRIPT", "EXISTS", digest(script))
	want(t, client, "$1\r\nv\r\n", "EVALSHA", digest(script), "1", "k1")
	want(t, client, "+OK\r\n", "SCRIPT", "FLUSH")
	want(t, client, "+OK\r\n", "SWAPDB", "0", "1")
	want(t, client, ":0\r\n", "DBSIZE")
	want(t, client, "+OK\r\n", "SWAPDB", "0", "1")
	for _, args := range [][]string{{"SCRIPT", "KILL"}, {"FUNCTION", "KILL"}, {"FUNCTION", "LIST"},
		{"FCALL", "f", "0"}, {"SCAN", "x"}} {
		if got := do(t, client, args...); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%q: %q", args, got)
		}
	}
	want(t, client, "+OK\r\n", "FLUSHDB")
	want(t, client, "+OK\r\n", "FLUSHALL", "ASYNC")
	want(t, client, ":0\r\n", "DBSIZE")
}
