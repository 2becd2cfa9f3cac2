package info_test

import (
	"fmt"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestInfoAsRedis checks that INFO of a single Redis has Redis's sections and fields, except for
// Leash's own.
func TestInfoAsRedis(t *testing.T) {
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	redis, client := proxytest.Dial(t, server.Addr), l.Dial(t)
	redis.Want(t, "+OK\r\n", "SET", "k", "v", "EX", "1000")
	for _, hello := range []string{"2", "3"} {
		redis.Reply(t, "HELLO", hello)
		client.Reply(t, "HELLO", hello)
		for _, cmd := range []string{"INFO keyspace", "INFO nonsense", "INFO modules", "INFO cluster nonsense"} {
			client.Want(t, redis.Reply(t, strings.Fields(cmd)...), strings.Fields(cmd)...)
		}
		for _, cmd := range []string{"INFO server", "INFO", "INFO all", "INFO replication stats"} {
			theirs, ours := layout(proxytest.Text(t, redis.Reply(t, strings.Fields(cmd)...))),
				layout(proxytest.Text(t, client.Reply(t, strings.Fields(cmd)...)))
			if i := strings.Index(ours, "# Leash"); i >= 0 {
				ours = ours[:i]
			}
			if ours != theirs {
				t.Errorf("%s: got\n%s\nwant\n%s", cmd, ours, theirs)
			}
		}
	}
	info := infoFields(proxytest.Text(t, client.Reply(t, "INFO")))
	for name, value := range map[string]string{"connected_clients": "1", "maxclients": "10000",
		"tcp_port": l.Addr[strings.LastIndexByte(l.Addr, ':')+1:], "role": "master", "redis_mode": "standalone",
		"leash_renewal_lag_ms": "0"} {
		if info[name] != value {
			t.Errorf("%s: got %q, want %q", name, info[name], value)
		}
	}
	if _, ok := info["leash_missing_masters"]; ok {
		t.Error("a master is missing")
	}
}

// infoFields returns the values of a text of INFO.
func infoFields(text string) map[string]string {
	values := make(map[string]string)
	for line := range strings.SplitSeq(text, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		values[name] = value
	}
	return values
}

// layout returns a text of INFO without values and without the fields that appear as commands run.
func layout(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\r\n") {
		name, _, _ := strings.Cut(line, ":")
		if !strings.HasPrefix(name, "cmdstat_") && !strings.HasPrefix(name, "latency_percentiles") &&
			!strings.HasPrefix(name, "errorstat_") {
			b.WriteString(name + "\n")
		}
	}
	return b.String()
}

// TestInfoOfAllMasters checks that the numbers of all masters are added up where that is possible.
func TestInfoOfAllMasters(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	l := proxytest.Start(t, cluster.Addrs())
	client := l.Dial(t)
	for i := range 300 {
		client.Want(t, "+OK\r\n", "SET", fmt.Sprint("key", i), "v", "EX", "1000")
		client.Want(t, "$1\r\nv\r\n", "GET", fmt.Sprint("key", i))
	}
	info := infoFields(proxytest.Text(t, client.Reply(t, "INFO", "everything")))
	if got := info["db0"]; !strings.HasPrefix(got, "keys=300,expires=300,avg_ttl=") {
		t.Errorf("db0: %q", got)
	}
	for name, value := range map[string]string{
		"keyspace_hits": "300", "cluster_enabled": "1", "redis_mode": "cluster", "role": "master",
		"connected_slaves": "0", "loading": "0", "rdb_last_bgsave_status": "ok",
	} {
		if info[name] != value {
			t.Errorf("%s: got %q, want %q", name, info[name], value)
		}
	}
	if got := info["cmdstat_set"]; !strings.HasPrefix(got, "calls=300,usec=") ||
		!strings.HasSuffix(got, ",rejected_calls=0,failed_calls=0") {
		t.Errorf("cmdstat_set: %q", got)
	}
	if _, ok := info["slave0"]; ok {
		t.Error("a replica is shown")
	}
	var one, all int64
	memory := proxytest.Text(t, proxytest.Dial(t, cluster.Nodes[0].Addr).Reply(t, "INFO", "memory"))
	fmt.Sscan(infoFields(memory)["used_memory"], &one)
	fmt.Sscan(info["used_memory"], &all)
	if all < 2*one {
		t.Errorf("used_memory of one node %d, of all %d", one, all)
	}
	for range 3 { // whichever node a session asks first
		if got := proxytest.Text(t, l.Dial(t).Reply(t, "INFO", "keyspace")); !strings.Contains(got, "db0:keys=300,") {
			t.Errorf("INFO keyspace: %q", got)
		}
	}
}
