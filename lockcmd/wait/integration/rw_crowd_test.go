package wait_test

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
)

var pttlCalls = regexp.MustCompile(`cmdstat_pttl:calls=(\d+)`)

// TestManyReadersGoInLinearTime: The cost in Redis of releasing a READ hold does not depend on the
// number of readers. Otherwise a thousand readers could block Redis.
func TestManyReadersGoInLinearTime(t *testing.T) {
	t.Parallel()
	const readers, most = 500, 60 // most PTTL calls for each reader; it was about half of the readers
	server := redistest.Start(t)
	rdb := locktest.DialServer(t, server.Addr)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	for name, connections := range map[string]int{"one connection": 1, "each its own": readers} {
		var all []*locktest.Client
		for range connections {
			all = append(all, locktest.Connect(t, s))
		}
		for i := range readers {
			all[i%connections].Token(key, "READ")
		}
		writer := locktest.Connect(t, s)
		reply := writer.Await(s, 1, key, "WRITE", "BLOCK", "0")
		if err := rdb.ConfigResetStat(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			a.Carrier.End(lockcmd.Release)
		}
		locktest.TokenOf(t, locktest.Receive(t, reply, 30*time.Second))
		locktest.Want(t, writer.Do("LOCK.RELEASE", key), ":1")
		m := pttlCalls.FindStringSubmatch(rdb.Info(context.Background(), "commandstats").Val())
		if m == nil {
			t.Fatal("Redis did not count PTTL")
		}
		if calls, _ := strconv.Atoi(m[1]); calls > most*readers {
			t.Errorf("%s: %d calls of PTTL for %d readers", name, calls, readers)
		}
		if locktest.Exists(t, rdb, key) {
			t.Errorf("%s: the lock is still there", name)
		}
	}
}
