package proxy

import (
	"fmt"
	"strings"
	"testing"

	"leash/internal/redistest"
)

// TestInfoAsRedis checks that INFO of a single Redis has Redis's sections and fields, except for
// Leash's own.
func TestInfoAsRedis(t *testing.T) {
	server := redistest.Start(t)
	l := startLeash(t, []string{server.Addr})
	redis, client := dialAddr(t, server.Addr), l.dial(t)
	want(t, redis, "+OK\r\n", "SET", "k", "v", "EX", "1000")
	for _, hello := range []string{"2", "3"} {
		do(t, redis, "HELLO", hello)
		do(t, client, "HELLO", hello)
		for _, cmd := range []string{"INFO keyspace", "INFO nonsense", "INFO modules", "INFO cluster nonsense"} {
			want(t, client, do(t, redis, strings.Fields(cmd)...), strings.Fields(cmd)...)
		}
		for _, cmd := range []string{"INFO server", "INFO", "INFO all", "INFO replication stats"} {
			theirs, ours := layout(text(t, do(t, redis, strings.Fields(cmd)...))),
				layout(text(t, do(t, client, strings.Fields(cmd)...)))
			if i := strings.Index(ours, "# Leash"); i >= 0 {
				ours = ours[:i]
			}
			if ours != theirs {
				t.Errorf("%s: got\n%s\nwant\n%s", cmd, ours, theirs)
			}
		}
	}
	info := infoFields(text(t, do(t, client, "INFO")))
	for name, value := range map[string]string{"connected_clients": "1", "maxclients": "10000",
		"tcp_port": l.addr[strings.LastIndexByte(l.addr, ':')+1:], "role": "master", "redis_mode": "standalone",
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
	l := startLeash(t, cluster.Addrs())
	client := l.dial(t)
	for i := range 300 {
		want(t, client, "+OK\r\n", "SET", fmt.Sprint("key", i), "v", "EX", "1000")
		want(t, client, "$1\r\nv\r\n", "GET", fmt.Sprint("key", i))
	}
	info := infoFields(text(t, do(t, client, "INFO", "everything")))
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
	fmt.Sscan(infoFields(text(t, do(t, dialAddr(t, cluster.Nodes[0].Addr), "INFO", "memory")))["used_memory"], &one)
	fmt.Sscan(info["used_memory"], &all)
	if all < 2*one {
		t.Errorf("used_memory of one node %d, of all %d", one, all)
	}
	for range 3 { // whichever node a session asks first
		if got := text(t, do(t, l.dial(t), "INFO", "keyspace")); !strings.Contains(got, "db0:keys=300,") {
			t.Errorf("INFO keyspace: %q", got)
		}
	}
}
