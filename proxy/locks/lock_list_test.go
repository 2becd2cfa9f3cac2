package locks_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/scan"
)

// listLocks runs LOCK.LIST to its end and returns the names, sorted, without duplicates.
func listLocks(t *testing.T, c *redistest.Client, args ...string) []string {
	t.Helper()
	var all []string
	for cursor, i := uint64(0), 0; ; i++ {
		reply := c.Reply(t, append([]string{"LOCK.LIST", strconv.FormatUint(cursor, 10)}, args...)...)
		next, list, ok := scan.ParseReply([]byte(reply))
		if !ok || i > 10000 {
			t.Fatalf("LOCK.LIST %d %q: %.200q", cursor, args, reply)
		}
		all = append(all, proxytest.Bulks(string(list))...)
		if cursor = next; cursor == 0 {
			slices.Sort(all)
			return slices.Compact(all)
		}
	}
}

// manyLocks makes locks of all kinds and other keys. It returns the locks' names, sorted.
func manyLocks(t *testing.T, clients []*redistest.Client) (names []string) {
	t.Helper()
	for i := range 30 {
		c := clients[i%len(clients)]
		for _, name := range []string{fmt.Sprintf("plain:%d", i), fmt.Sprintf("{tag}:%d", i)} {
			proxytest.Token(t, c, name)
			names = append(names, name)
		}
		for _, name := range []string{fmt.Sprintf("shared:%d", i), fmt.Sprintf("{r%d}", i), fmt.Sprintf("r{%d}", i)} {
			proxytest.Token(t, c, name, "READ")
			names = append(names, name)
		}
		c.Reply(t, "HSET", fmt.Sprintf("java:%d", i), "0a1b:7", "1")
		c.Reply(t, "HSET", fmt.Sprintf("hash:%d", i), "leash", "no record")
		c.Reply(t, "HSET", fmt.Sprintf("{h%d}:leash", i), "f", "v")
		c.Reply(t, "SET", fmt.Sprintf("string:%d:leash", i), "v")
	}
	released := proxytest.Token(t, clients[0], "released")
	clients[0].Want(t, ":1\r\n", "LOCK.RELEASE", "released", "TOKEN", released)
	slices.Sort(names)
	return names
}

func wantLocks(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %d locks %q\nwant %d %q", len(got), got, len(want), want)
	}
}

// TestLockList checks that LOCK.LIST returns the locks of all Leashes and nodes, and nothing else.
func TestLockList(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	server := redistest.Start(t)
	for name, addrs := range map[string][]string{"cluster": cluster.Addrs(), "single": {server.Addr}} {
		t.Run(name, func(t *testing.T) {
			one, two := proxytest.Start(t, addrs), proxytest.Start(t, addrs)
			clients := []*redistest.Client{one.Dial(t), two.Dial(t)}
			wantLocks(t, listLocks(t, clients[0]), nil)
			names := manyLocks(t, clients)
			for _, c := range clients {
				wantLocks(t, listLocks(t, c), names)
				wantLocks(t, listLocks(t, c, "COUNT", "1000"), names)
				wantLocks(t, listLocks(t, c, "MATCH", "*", "COUNT", "7"), names)
				wantLocks(t, listLocks(t, c, "count", "100", "match", "shared:1?"), matching(names, "shared:1", 9))
				wantLocks(t, listLocks(t, c, "MATCH", "{tag}:*"), matching(names, "{tag}:", 0))
			}
			clients[0].Want(t, "+OK\r\n", "CLIENT", "SETNAME", "x")
			clients[0].Close() // its locks go
			for i, c := 0, clients[1]; len(listLocks(t, c)) != len(names)/2; i++ {
				if i == 1000 {
					t.Fatal("the locks of a client that is gone are still listed")
				}
			}
		})
	}
}

// TestLockListPartial: with PARTIAL, a master that is down is named, and the locks of the others
// are listed.
func TestLockListPartial(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t,
		redistest.ClusterOptions{Args: []string{"--cluster-require-full-coverage", "no"}})
	c := proxytest.Start(t, cluster.Addrs()).Dial(t)
	c.Timeout = 30 * time.Second
	var names []string
	for i := range 30 {
		name := proxytest.KeyOn(t, cluster, cluster.Nodes[i%3], fmt.Sprintf("lock%d:", i))
		proxytest.Token(t, c, name)
		if i%3 != 1 {
			names = append(names, name)
		}
	}
	if err := cluster.Nodes[1].Kill(); err != nil {
		t.Fatal(err)
	}
	lost := fmt.Sprintf("*2\r\n$%d\r\n%s\r\n", len(cluster.Nodes[1].Addr), cluster.Nodes[1].Addr)
	var got []string
	named := false
	for cursor, begun := "0", false; cursor != "0" || !begun; begun = true {
		reply := c.Reply(t, "LOCK.LIST", cursor, "PARTIAL", "COUNT", "1000")
		list, ok := strings.CutPrefix(reply, "*3\r\n$")
		if !ok {
			t.Fatalf("got %q", reply)
		}
		_, list, _ = strings.Cut(list, "\r\n")
		cursor, list, _ = strings.Cut(list, "\r\n")
		list, _, down := strings.Cut(list, lost)
		if named = named || down; !down {
			list = strings.TrimSuffix(list, "*0\r\n")
		}
		got = append(got, proxytest.Bulks(list)...)
	}
	slices.Sort(got)
	slices.Sort(names)
	wantLocks(t, slices.Compact(got), names)
	if !named {
		t.Errorf("%s is not named", cluster.Nodes[1].Addr)
	}
	if got := c.Reply(t, "LOCK.LIST", "0", "COUNT", "1000"); !strings.HasPrefix(got, "*2\r\n") && !strings.HasPrefix(got, "-UPSTREAM") {
		t.Errorf("without PARTIAL: got %q", got)
	}
}

// matching returns the names that begin with prefix and, if length is not 0, have that length.
func matching(names []string, prefix string, length int) (some []string) {
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && (length == 0 || len(name) == length) {
			some = append(some, name)
		}
	}
	return some
}

// TestLockListArguments checks that LOCK.LIST refuses wrong arguments as SCAN does.
func TestLockListArguments(t *testing.T) {
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	c := l.Dial(t)
	for _, row := range [][2]string{
		{"LOCK.LIST", "-ERR wrong number of arguments for 'lock.list' command\r\n"},
		{"LOCK.LIST x", "-ERR invalid cursor\r\n"},
		{"LOCK.LIST -1", "-ERR invalid cursor\r\n"},
		{"LOCK.LIST 0 COUNT", "-ERR syntax error\r\n"},
		{"LOCK.LIST 0 COUNT 0", "-ERR syntax error\r\n"},
		{"LOCK.LIST 0 COUNT x", "-ERR value is not an integer or out of range\r\n"},
		{"LOCK.LIST 0 TYPE hash", "-ERR syntax error\r\n"},
		{"LOCK.LIST 0 MATCH a MATCH b", "-ERR syntax error\r\n"},
		{"LOCK.LIST 0 PARTIAL PARTIAL", "-ERR syntax error\r\n"},
		{"LOCK.LIST 0 PARTIAL MATCH", "-ERR syntax error\r\n"},
		{"lock.list 0 partial count 5", "*3\r\n$1\r\n0\r\n*0\r\n*0\r\n"},
		{"lock.list 0 match a count 5", "*2\r\n$1\r\n0\r\n*0\r\n"},
	} {
		c.Want(t, row[1], strings.Fields(row[0])...)
	}
}

// TestR8LockListNeedsTheRightToScan checks that LOCK.LIST needs the right to SCAN and lists only
// locks of the session's database.
func TestR8LockListNeedsTheRightToScan(t *testing.T) {
	server := proxytest.Secured(t)
	admin := proxytest.Dial(t, server.Addr)
	admin.Want(t, "+OK\r\n", "AUTH", "secret")
	admin.Want(t, "+OK\r\n", "ACL", "SETUSER", "ann", "on", ">pw", "~*", "+@all", "-scan")
	l := proxytest.Start(t, []string{server.Addr}, proxytest.WithPassword)
	c, ann := l.Dial(t), l.Dial(t)
	ann.Want(t, "-NOAUTH Authentication required.\r\n", "LOCK.LIST", "0")
	ann.Want(t, "+OK\r\n", "AUTH", "ann", "pw")
	c.Want(t, "+OK\r\n", "AUTH", "secret")
	proxytest.Token(t, c, "zero")
	if got := ann.Reply(t, "LOCK.LIST", "0"); !strings.HasPrefix(got, "-NOPERM") {
		t.Errorf("without the right to SCAN: got %q", got)
	}
	c.Want(t, "+OK\r\n", "SELECT", "3")
	proxytest.Token(t, c, "three")
	wantLocks(t, listLocks(t, c), []string{"three"})
	c.Want(t, "+OK\r\n", "SELECT", "0")
	wantLocks(t, listLocks(t, c), []string{"zero"})
}
