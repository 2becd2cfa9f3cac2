package hold_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/script/transport"
	"leash/proxy/slots"
)

// transientCase is a transient error of Redis.
type transientCase struct {
	begin, stop [][]any // commands that make Redis return the error, and stop it
	at          *redis.Client
	rdb         redis.UniversalClient
}

// TestR7NoRetriableErrorReachesClients: Client libraries retry a command that gets one of Redis's
// transient errors. When Redis returns such an error to Leash for longer than Leash retries,
// clients get LOCKTIMEOUT, or the reply that the lock is taken. Later everything works as before.
func TestR7NoRetriableErrorReachesClients(t *testing.T) {
	t.Parallel() // mostly waiting
	const key = "k"
	masterless := [][]any{{"REPLICAOF", "127.0.0.1", "1"}}
	cases := map[string]transientCase{
		"READONLY": {begin: masterless, stop: [][]any{{"REPLICAOF", "NO", "ONE"}}},
		"MASTERDOWN": {begin: append([][]any{{"CONFIG", "SET", "replica-serve-stale-data", "no"}}, masterless...),
			stop: [][]any{{"REPLICAOF", "NO", "ONE"}}},
	}
	for word, c := range cases {
		server := redistest.Start(t)
		c.at, c.rdb = server.Client(), locktest.DialServer(t, server.Addr)
		cases[word] = c
	}
	cluster, slot := redistest.StartCluster(t, redistest.ClusterOptions{}), int(slots.Of([]byte(key)))
	cases["CLUSTERDOWN"] = transientCase{
		begin: [][]any{{"CLUSTER", "DELSLOTS", slot}}, stop: [][]any{{"CLUSTER", "ADDSLOTS", slot}},
		at: cluster.MasterOf(slot).Client(), rdb: locktest.DialCluster(t, cluster.Addrs()...),
	}
	// the same, where only another slot is without a node, and reads go on
	reads := redistest.StartCluster(t, redistest.ClusterOptions{})
	cases["Script attempted to execute a write command"] = transientCase{
		begin: [][]any{{"CONFIG", "SET", "cluster-allow-reads-when-down", "yes"}, {"CLUSTER", "DELSLOTS", slot + 1}},
		stop:  [][]any{{"CLUSTER", "ADDSLOTS", slot + 1}},
		at:    reads.MasterOf(slot).Client(), rdb: locktest.DialCluster(t, reads.Addrs()...),
	}
	tests := make(map[string]func(*testing.T))
	for word, c := range cases {
		tests[word] = func(t *testing.T) {
			s := locktest.Start(t, c.rdb, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
			a, b := locktest.Connect(t, s), locktest.Connect(t, s)
			sem := "{" + key + "}sem"
			locktest.Eventually(t, locktest.Soon, "Redis takes a lock", func() bool {
				return b.Do("LOCK.ACQUIRE", key, "OWNER", "other", "LEASE", "600000")[0] == ':'
			})
			held := map[string]string{} // tokens and permits, by their name in the requests below
			held["plain"] = fmt.Sprint(a.Token("{"+key+"}plain", "OWNER", "me", "LEASE", "600000"))
			held["read"] = fmt.Sprint(a.Token("{"+key+"}read", "READ", "LEASE", "600000"))
			a.Token("{"+key+"}several", "LEASE", "600000")
			locktest.Want(t, a.Do("SEM.INIT", sem, "3"), ":1")
			tell := func(commands [][]any) {
				for _, args := range commands {
					if err := c.at.Do(context.Background(), args...).Err(); err != nil {
						t.Fatalf("%v: %v", args, err)
					}
				}
			}
			tell(c.begin)
			locktest.Eventually(t, locktest.Soon, "it says so", func() bool {
				err := c.at.Eval(context.Background(), "return redis.call('SET', KEYS[1], '1')",
					[]string{"{" + key + "}other"}).Err()
				return redis.HasErrorPrefix(err, word) || redis.HasErrorPrefix(err, "Can not execute") // Valkey 9
			})
			// Each command waits for seconds, so a connection of its own runs it at once. Those
			// about holds of their own connection run in turn.
			commands := make(map[string]func(*testing.T))
			try := func(c *locktest.Client, args []string) {
				reply := locktest.Receive(t, c.Start(args...), locktest.Soon)
				first, _, _ := strings.Cut(strings.TrimPrefix(reply, "-"), " ")
				if slices.Contains(transport.Transient, first) || first == "ERR" {
					t.Errorf("%v was answered %q", args, reply)
				}
				if word == "READONLY" && first == "LOCKTIMEOUT" && !strings.Contains(reply, ": "+word+" ") {
					t.Errorf("%v was answered %q, which does not say why", args, reply)
				}
			}
			for _, args := range [][]string{
				{"LOCK.ACQUIRE", key},
				{"LOCK.ACQUIRE", key, "BLOCK", "100"},
				{"LOCK.ACQUIRE", key, "FAIR", "BLOCK", "100"},
				{"LOCK.ACQUIRE", "{" + key + "}rw", "READ"},
				{"LOCK.ACQUIRE", "{" + key + "}rw", "WRITE", "OWNER", "me"},
				{"LOCK.MACQUIRE", "2", "{" + key + "}1", "{" + key + "}2"},
				{"LOCK.EXTEND", "{" + key + "}plain", "700000", "TOKEN", held["plain"]},
				{"LOCK.ATTACH", "{" + key + "}plain", "OWNER", "me", "TOKEN", held["plain"]},
				{"LOCK.CHECK", "{" + key + "}plain", "TOKEN", "7"},
				{"LOCK.INFO", "{" + key + "}plain"},
				{"LOCK.BREAK", "{" + key + "}free"},
				{"LOCK.AWAITLOSS", "{" + key + "}plain", "TOKEN", "7", "BLOCK", "100"},
				{"SEM.ACQUIRE", sem},
				{"SEM.ACQUIRE", sem, "BLOCK", "100"},
				{"SEM.INIT", "{" + key + "}new", "1"},
				{"SEM.RESIZE", sem, "4"},
				{"SEM.INFO", sem},
				{"SEM.TAKE", "{" + key + "}count"},
				{"SEM.GIVE", "{" + key + "}count"},
				{"LATCH.SET", "{" + key + "}latch", "1"},
				{"LATCH.DOWN", "{" + key + "}latch"},
				{"LATCH.GET", "{" + key + "}latch"},
				{"LATCH.AWAIT", "{" + key + "}latch", "BLOCK", "100"},
			} {
				commands[strings.Join(args, " ")] = func(t *testing.T) { try(locktest.Connect(t, s), args) }
			}
			locktest.RunParallel(t, commands)
			for _, args := range [][]string{
				{"LOCK.TTL", "{" + key + "}plain"},
				{"LOCK.RELEASE", "{" + key + "}read"},
				{"LOCK.RELEASE", "{" + key + "}plain", "TOKEN", held["plain"]},
				{"LOCK.MRELEASE", "1", "{" + key + "}several"},
			} {
				try(a, args)
			}
			tell(c.stop)
			locktest.Eventually(t, locktest.Soon, "all is as it was", func() bool {
				return b.Do("LOCK.RELEASE", key, "OWNER", "other")[0] != '-'
			})
			locktest.WantNothingLeft(t, c.rdb, key)
		}
	}
	locktest.RunParallel(t, tests)
}
