package command_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy"
	"leash/proxy/cluster"
)

// likeOneNode removes ids, addresses and epochs from a reply, so that Leash's can be compared with
// that of a cluster of one node.
func likeOneNode(reply, addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	for _, r := range []struct{ pattern, by string }{
		{`[0-9a-f]{40}`, "ID"}, {host + ":" + port + "@[0-9]+", "ADDR"}, {`:` + port + `\r\n`, ":PORT\r\n"},
		// the length differs with port and epoch
		{`[$=][0-9]+\r\n(txt:)?(ID ADDR|cluster_)`, "TEXT $2"},
		{`_epoch:[0-9]+`, "_epoch:N"}, {`- 0 0 [0-9]+ conn`, "- 0 0 N conn"},
		{`(stats_messages_[a-z_]*|offset\r\n):[0-9]+`, "$1:N"},
		{`cluster_stats_messages_[a-z]+_(sent|received):N\r\n`, ""}, // by kind, of the bus
	} {
		reply = regexp.MustCompile(r.pattern).ReplaceAllString(reply, r.by)
	}
	return reply
}

// TestClusterOfOneNode compares how Leash describes itself with a cluster that has one node for all
// slots.
func TestClusterOfOneNode(t *testing.T) {
	t.Parallel()
	one := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 1})
	three := redistest.StartCluster(t)
	l := proxytest.Start(t, three.Addrs())
	real := one.Nodes[0].Addr
	redis, client := proxytest.Dial(t, real), l.Dial(t)
	for _, hello := range []string{"2", "3"} {
		redis.Reply(t, "HELLO", hello)
		client.Reply(t, "HELLO", hello)
		for _, cmd := range []string{
			"CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER INFO", "CLUSTER MYID", "CLUSTER LINKS",
			"CLUSTER KEYSLOT {a}b",
			"CLUSTER REPLICAS x", "CLUSTER SLAVES x", "CLUSTER COUNT-FAILURE-REPORTS x", "CLUSTER HELP",
			"CLUSTER NONSENSE", "CLUSTER", "CLUSTER SLOTS x",
			"CLUSTER KEYSLOT", "CLUSTER COUNTKEYSINSLOT x", "CLUSTER COUNTKEYSINSLOT 16384",
			"CLUSTER COUNTKEYSINSLOT -1", "CLUSTER COUNTKEYSINSLOT 1",
			"CLUSTER GETKEYSINSLOT 1 -1", "CLUSTER GETKEYSINSLOT 16384 1", "CLUSTER GETKEYSINSLOT x 1",
			"CLUSTER GETKEYSINSLOT 1 x", "CLUSTER GETKEYSINSLOT 1 10",
			"READONLY", "READWRITE", "ASKING", "READONLY x", "ASKING x", "HELLO",
		} {
			want := likeOneNode(redis.Reply(t, strings.Fields(cmd)...), real)
			got := likeOneNode(client.Reply(t, strings.Fields(cmd)...), l.Addr)
			if cmd == "HELLO" {
				id := regexp.MustCompile(`id\r\n:[0-9]+`)
				want, got = id.ReplaceAllString(want, ""), id.ReplaceAllString(got, "")
			}
			if got != want {
				t.Errorf("RESP%s %s: got %q, want %q", hello, cmd, got, want)
			}
		}
	}
	client = l.Dial(t)
	id := strings.Split(client.Reply(t, "CLUSTER", "MYID"), "\r\n")[1]
	client.Want(t, "*0\r\n", "CLUSTER", "REPLICAS", id)
	client.Want(t, ":0\r\n", "CLUSTER", "COUNT-FAILURE-REPORTS", id)
	l.Dial(t).Want(t, "$40\r\n"+id+"\r\n", "CLUSTER", "MYID")
}

// TestClusterCannotBeChanged checks that CLUSTER commands that would change a node are refused.
func TestClusterCannotBeChanged(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, redistest.StartCluster(t, redistest.ClusterOptions{Masters: 1}).Addrs())
	client := l.Dial(t)
	for _, cmd := range []string{"CLUSTER ADDSLOTS 1", "CLUSTER FAILOVER", "CLUSTER MEET 127.0.0.1 1",
		"CLUSTER RESET", "CLUSTER SETSLOT 1 STABLE", "CLUSTER FLUSHSLOTS"} {
		args := strings.Fields(cmd)
		name := strings.ToLower(args[0] + "|" + args[1])
		client.Want(t, "-ERR '"+name+
			"' is refused by leash: Leash shows the cluster as one node; send it to the node itself\r\n", args...)
	}
}

// TestNoCluster checks that CLUSTER commands in front of a single Redis give its own errors.
func TestNoCluster(t *testing.T) {
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	redis, client := proxytest.Dial(t, server.Addr), l.Dial(t)
	for _, cmd := range []string{"CLUSTER SLOTS", "CLUSTER INFO", "CLUSTER NODES", "CLUSTER HELP", "CLUSTER RESET",
		"CLUSTER KEYSLOT a", "CLUSTER KEYSLOT", "CLUSTER X", "READONLY", "READWRITE", "ASKING"} {
		client.Want(t, redis.Reply(t, strings.Fields(cmd)...), strings.Fields(cmd)...)
	}
}

// TestKeysInSlotWhileItMoves checks that keys of a migrating slot are counted on both nodes.
func TestKeysInSlotWhileItMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 2})
	l := proxytest.Start(t, cluster.Addrs())
	client := l.Dial(t)
	const slot = 100
	for i := range 10 {
		client.Want(t, "+OK\r\n", "SET", redistest.KeyIn(slot, fmt.Sprint(i)), "v")
	}
	move, err := cluster.BeginMove(slot, cluster.Nodes[1])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := move.MoveKeys(4); err != nil {
		t.Fatal(err)
	}
	client.Want(t, ":10\r\n", "CLUSTER", "COUNTKEYSINSLOT", fmt.Sprint(slot))
	for limit, n := range map[int]int{0: 0, 5: 5, 10: 10, 100: 10} {
		got := client.Reply(t, "CLUSTER", "GETKEYSINSLOT", fmt.Sprint(slot), fmt.Sprint(limit))
		if !strings.HasPrefix(got, fmt.Sprintf("*%d\r\n", n)) {
			t.Errorf("GETKEYSINSLOT of %d: %q", limit, got)
		}
	}
}

// TestAnnounce checks that cluster clients are told the announced address.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 1})
	l := proxytest.Start(t, nodes.Addrs(), func(o *proxytest.Options) { o.Front.Announce = "leash.example:7777" })
	client := l.Dial(t)
	id := (cluster.Addr{Host: "leash.example", Port: 7777}).ID()
	client.Want(t, "*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$13\r\nleash.example\r\n:7777\r\n$40\r\n"+id+"\r\n*0\r\n",
		"CLUSTER", "SLOTS")
	if got := client.Reply(t, "CLUSTER", "NODES"); !strings.Contains(got,
		id+" leash.example:7777@17777 myself,master - 0 0 1 connected 0-16383\n") {
		t.Errorf("CLUSTER NODES: %q", got)
	}
	if got := client.Reply(t, "CLUSTER", "SHARDS"); !strings.Contains(got, "$8\r\nhostname\r\n$13\r\nleash.example\r\n") {
		t.Errorf("CLUSTER SHARDS: %q", got)
	}
	if _, err := proxy.New(proxy.Config{Announce: "x"}, nil, nil, nil, nil, nil); err == nil {
		t.Error("an invalid address was announced")
	}
}

// TestUnixClientGetsFirstPort checks that a client on a unix socket is told the first TCP
// port.
func TestUnixClientGetsFirstPort(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 1})
	path := filepath.Join(t.TempDir(), "leash")
	l := proxytest.Start(t, cluster.Addrs(), func(o *proxytest.Options) {
		o.Listen = []string{"0.0.0.0:0", "unix:" + path}
	})
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	client := redistest.NewClient(conn)
	defer client.Close()
	_, port, _ := net.SplitHostPort(l.Addr)
	if got := client.Reply(t, "CLUSTER", "SLOTS"); !strings.Contains(got, "$9\r\n127.0.0.1\r\n:"+port+"\r\n") {
		t.Errorf("CLUSTER SLOTS: %q", got)
	}
}

// TestClusterClient checks that a cluster client sends all commands to Leash.
func TestClusterClient(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, redistest.StartCluster(t).Addrs())
	for _, protocol := range []int{2, 3} {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{l.Addr}, Protocol: protocol,
			ReadOnly: true})
		for i := range 100 {
			key := fmt.Sprint("key", i)
			if err := client.Set(t.Context(), key, i, 0).Err(); err != nil {
				t.Fatal(err)
			}
			if got, err := client.Get(t.Context(), key).Int(); got != i || err != nil {
				t.Fatalf("%s: got %d, %v", key, got, err)
			}
		}
		var seen []string
		if err := client.ForEachMaster(t.Context(), func(_ context.Context, c *redis.Client) error {
			seen = append(seen, c.Options().Addr)
			return nil
		}); err != nil || len(seen) != 1 || seen[0] != l.Addr {
			t.Errorf("masters: %v, %v; want only %s", seen, err, l.Addr)
		}
		client.Close()
	}
}
