package merge

import (
	"strings"
	"testing"
)

// TestInfoOfEmbeddedRedis checks that INFO works with the embedded Redis, which refuses
// sections that it lacks.
func TestInfoOfEmbeddedRedis(t *testing.T) {
	ours := Info{Section: []byte("# Leash\r\n")}
	for reply, want := range map[string]string{
		"-ERR section (leash) is not supported": "$9 # Leash ",
		"-NOPERM no":                            "-NOPERM no",
	} {
		if got := text(Merge(ours.Merge, replies(reply))); got != want {
			t.Errorf("%s: got %q, want %q", reply, got, want)
		}
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
	r.Missing = 1
	want = "# Server\nredis_version:7\n\n# Memory\n\n# Keyspace\n"
	if got := strings.ReplaceAll(string(r.text()), "\r\n", "\n"); got != want {
		t.Errorf("with a master missing: got\n%s\nwant\n%s", got, want)
	}
}
