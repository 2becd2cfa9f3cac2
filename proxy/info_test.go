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
			theirs, ours := layout(text(t, do(t, redis, strings.Fields(cmd)...))), layout(text(t, do(t, client, strings.Fields(cmd)...)))
			if i := strings.Index(ours, "# Leash"); i >= 0 {
				ours = ours[:i]
			}
			if ours != theirs {
				t.Errorf("%s: got\n%s\nwant\n%s", cmd, ours, theirs)
			}
		}
	}
	info := parseInfo([]byte(text(t, do(t, client, "INFO")))).values
	for name, value := range map[string]string{"connected_clients": "1", "maxclients": "10000", "tcp_port": l.addr[strings.LastIndexByte(l.addr, ':')+1:], "role": "master", "redis_mode": "standalone", "leash_renewal_lag_ms": "0"} {
		if info[name] != value {
			t.Errorf("%s: got %q, want %q", name, info[name], value)
		}
	}
	if _, ok := info["leash_missing_masters"]; ok {
		t.Error("a master is missing")
	}
}

// layout returns a text of INFO without values and without the fields that appear as commands run.
func layout(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\r\n") {
		name, _, _ := strings.Cut(line, ":")
		if !strings.HasPrefix(name, "cmdstat_") && !strings.HasPrefix(name, "latency_percentiles") && !strings.HasPrefix(name, "errorstat_") {
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
	info := parseInfo([]byte(text(t, do(t, client, "INFO", "everything")))).values
	if got := info["db0"]; !strings.HasPrefix(got, "keys=300,expires=300,avg_ttl=") {
		t.Errorf("db0: %q", got)
	}
	for name, value := range map[string]string{
		"keyspace_hits": "300", "cluster_enabled": "1", "redis_mode": "cluster", "role": "master", "connected_slaves": "0", "loading": "0", "rdb_last_bgsave_status": "ok",
	} {
		if info[name] != value {
			t.Errorf("%s: got %q, want %q", name, info[name], value)
		}
	}
	if got := info["cmdstat_set"]; !strings.HasPrefix(got, "calls=300,usec=") || !strings.HasSuffix(got, ",rejected_calls=0,failed_calls=0") {
		t.Errorf("cmdstat_set: %q", got)
	}
	if _, ok := info["slave0"]; ok {
		t.Error("a replica is shown")
	}
	var one, all int64
	fmt.Sscan(parseInfo([]byte(text(t, do(t, dialAddr(t, cluster.Nodes[0].Addr), "INFO", "memory")))).values["used_memory"], &one)
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

// TestInfoOfEmbeddedRedis checks that INFO works with the embedded Redis, which refuses
// sections that it lacks.
func TestInfoOfEmbeddedRedis(t *testing.T) {
	r := &infoReport{leash: []byte("# Leash\r\n")}
	refusal := &fanout{parts: []*part{{reply: []byte("-ERR section (leash) is not supported\r\n")}}}
	if got, want := string(r.merge(refusal)), "$9\r\n# Leash\r\n\r\n"; !strings.HasPrefix(got, want[:13]) {
		t.Errorf("got %q", got)
	}
	denied := &fanout{parts: []*part{{reply: []byte("-NOPERM no\r\n")}}}
	if got := string((&infoReport{leash: []byte("x")}).merge(denied)); got != "-NOPERM no\r\n" {
		t.Errorf("got %q", got)
	}
}

// TestInfoRules merges known texts by the rules of INFO.
func TestInfoRules(t *testing.T) {
	of := func(texts ...string) *infoReport {
		r := &infoReport{}
		for _, text := range texts {
			r.texts = append(r.texts, parseInfo([]byte(strings.ReplaceAll(text, "\n", "\r\n"))))
		}
		return r
	}
	r := of("# Memory\nused_memory:1000\nused_memory_human:1000B\nused_memory_rss:3000\nmem_fragmentation_ratio:3.00\n# Stats\ninstantaneous_input_kbps:0.10\nloading:0\nrdb_last_save_time:70\naof_last_write_status:ok\nnew:1\n# Keyspace\ndb0:keys=1,expires=1,avg_ttl=100\n# Errorstats\nerrorstat_ERR:count=1\n# Commandstats\ncmdstat_get:calls=1,usec=3,usec_per_call=3.00,rejected_calls=0,failed_calls=0\n",
		"# Memory\nused_memory:1048\nused_memory_rss:1000\n# Stats\ninstantaneous_input_kbps:0.25\nloading:1\nrdb_last_save_time:60\naof_last_write_status:err\n# Keyspace\ndb0:keys=3,expires=3,avg_ttl=200\ndb1:keys=1,expires=0,avg_ttl=0\n# Errorstats\nerrorstat_WRONGTYPE:count=2\n# Commandstats\ncmdstat_get:calls=1,usec=2,usec_per_call=2.00,rejected_calls=1,failed_calls=0\n")
	want := "# Memory\nused_memory:2048\nused_memory_human:2.00K\nused_memory_rss:4000\nmem_fragmentation_ratio:1.95\n\n# Stats\ninstantaneous_input_kbps:0.35\nloading:1\nrdb_last_save_time:60\naof_last_write_status:err\nnew:1\n\n# Keyspace\ndb0:keys=4,expires=4,avg_ttl=175\ndb1:keys=1,expires=0,avg_ttl=0\n\n# Errorstats\nerrorstat_ERR:count=1\nerrorstat_WRONGTYPE:count=2\n\n# Commandstats\ncmdstat_get:calls=2,usec=5,usec_per_call=2.50,rejected_calls=1,failed_calls=0\n"
	if got := strings.ReplaceAll(string(r.text()), "\r\n", "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r = of("# Server\nredis_version:7\nslave0:ip=1\nlistener0:port=1\nslave_expires_tracked_keys:1\n# Memory\nused_memory:1000\nused_memory_human:1000B\n# Keyspace\ndb0:keys=1,expires=1,avg_ttl=100\n")
	r.missing = 1
	want = "# Server\nredis_version:7\n\n# Memory\n\n# Keyspace\n"
	if got := strings.ReplaceAll(string(r.text()), "\r\n", "\n"); got != want {
		t.Errorf("with a master missing: got\n%s\nwant\n%s", got, want)
	}
}
