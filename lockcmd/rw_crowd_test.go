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

// TestManyReadersGoInLinearTime: what the end of a READ hold costs Redis does not depend on how
// many others there are, so a connection with a thousand of them, or a thousand connections, do not
// keep Redis from answering.
func TestManyReadersGoInLinearTime(t *testing.T) {
	t.Parallel()
	const readers, most = 1000, 60 // most PTTL a reader; it was 500 and more
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
