package lockcmd

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"leash/internal/redistest"
)

var pttlCalls = regexp.MustCompile(`cmdstat_pttl:calls=(\d+)`)

// TestManyReadersGoInLinearTime: The cost in Redis of releasing a READ hold does not depend on the
// number of readers. Otherwise a thousand readers could block Redis.
func TestManyReadersGoInLinearTime(t *testing.T) {
	t.Parallel()
	const readers, most = 500, 60 // most PTTL calls for each reader; it was about half of the readers
	server := redistest.Start(t)
	rdb := dialServer(t, server.Addr)
	s, key := leash(t, rdb, Config{}), newKey()
	for name, connections := range map[string]int{"one connection": 1, "each its own": readers} {
		var all []*conn
		for range connections {
			all = append(all, connect(t, s))
		}
		for i := range readers {
			all[i%connections].token(key, "READ")
		}
		writer := connect(t, s)
		reply := writer.await(s, 1, key, "WRITE", "BLOCK", "0")
		if err := rdb.ConfigResetStat(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			a.carrier.End(Release)
		}
		tokenOf(t, receive(t, reply, 30*time.Second))
		want(t, writer.do("LOCK.RELEASE", key), ":1")
		m := pttlCalls.FindStringSubmatch(rdb.Info(context.Background(), "commandstats").Val())
		if m == nil {
			t.Fatal("Redis did not count PTTL")
		}
		if calls, _ := strconv.Atoi(m[1]); calls > most*readers {
			t.Errorf("%s: %d calls of PTTL for %d readers", name, calls, readers)
		}
		if exists(t, rdb, key) {
			t.Errorf("%s: the lock is still there", name)
		}
	}
}
