package failover_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/proxy/slots"
)

// TestR2GraceOfMoves: A failover forgets that holds were moved to another connection. They are
// moved there again before any client notices.
func TestR2GraceOfMoves(t *testing.T) {
	t.Parallel() // mostly waiting
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1, NodeTimeout: time.Minute})
	rdb := locktest.DialCluster(t, cluster.Addrs()...)
	cfg := lockcmd.Config{WatchdogTimeout: graceTTL, FailoverGrace: graceTTL}
	s, other := locktest.Start(t, rdb, cfg), locktest.Start(t, rdb, cfg)
	endGracePeriods(t, s)
	endGracePeriods(t, other)
	sem := locktest.NewKey()
	slot := int(slots.Of([]byte(sem)))
	// Each kind of hold has its own connections, because ATTACH closes the old one.
	type moving struct {
		key, mode string
		a, b      *locktest.Client
		token     int64
	}
	var all []*moving
	for _, mode := range []string{"", "LEASE", "READ", "WRITE", "repeated"} {
		m := &moving{key: redistest.KeyIn(slot, "moving"+mode), mode: mode, a: locktest.Connect(t, s),
			b: locktest.Connect(t, other)}
		args := []string{m.key, "OWNER", "me", "ID", "1"}
		switch mode {
		case "LEASE":
			args = append(args, "LEASE", "600000")
		case "READ", "WRITE":
			args = append(args, mode)
		}
		m.token = m.a.Token(args...)
		all = append(all, m)
	}
	permitA, permitB := locktest.Connect(t, s), locktest.Connect(t, other)
	locktest.Want(t, permitA.Do("SEM.INIT", sem, "3"), ":1")
	permit := permitA.Do("SEM.ACQUIRE", sem, "ID", "1")
	master, replica := cluster.MasterOf(slot).Client(), cluster.ReplicaOf(slot).Client()
	locktest.Eventually(t, locktest.Soon, "the replica has all", func() bool {
		return master.DBSize(t.Context()).Val() == replica.DBSize(t.Context()).Val()
	})
	f := cutReplica(t, cluster, sem)
	locktest.Want(t, permitB.Do("SEM.ACQUIRE", sem, "ID", "1"), permit)
	for _, m := range all {
		if m.mode == "repeated" {
			m.b.Token(m.key, "OWNER", "me", "ID", "1")
			continue
		}
		m.b.Attach(m.key, "me", m.token)
		locktest.Want(t, locktest.Receive(t, m.a.Moved, locktest.Soon), m.key)
	}
	locktest.Eventually(t, locktest.Soon, "the first Leash knows of all moves",
		func() bool { return s.Stats().Holds == 0 })
	f.fail()
	locktest.Eventually(t, locktest.Soon, "all have the carriers they were moved to", func() bool {
		hanging := 0
		for _, h := range locktest.HeldIn(other, slot) {
			r, ok := locktest.RecordOf(t, replica, h)
			if ok && r.Carrier == h.Carrier.Name && !other.Graces.NeedsRepair(h.Key(), &h.Watch) {
				hanging++
			}
		}
		return hanging == len(all)+1
	})
	for _, m := range all {
		locktest.Want(t, m.b.Do("LOCK.CHECK", m.key, "TOKEN", strconv.FormatInt(m.token, 10)), ":1")
		locktest.Want(t, m.b.Do("LOCK.RELEASE", m.key), ":1")
		if len(m.a.Losses)+len(m.b.Losses)+len(m.b.Moved) > 0 {
			t.Errorf("a hold that was moved was told of again, mode %q", m.mode)
		}
	}
	locktest.Want(t, permitB.Do("SEM.RELEASE", sem), ":1")
	if len(permitA.Losses)+len(permitB.Losses)+len(permitB.Moved) > 0 {
		t.Error("a permit that was moved was told of again")
	}
}

// TestR2GraceCountsMoves: After a failover, two carriers have the same hold. The carrier of the
// later move keeps it, and the other one is told.
func TestR2GraceCountsMoves(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := locktest.GraceConfig()
		cfg.WatchdogTimeout = 10 * time.Minute // no renewal during the test
		s := locktest.Start(t, rdb, cfg, locktest.Graceful)
		for _, mode := range []string{"", "READ", "WRITE"} {
			for _, c := range []struct {
				name  string
				moves string // in the record of the new master
				stays bool
				asks  []string // the command that finds it, with "K" for the key; the watchdog if empty
			}{
				{"an earlier one", "-", true, nil},
				{"an earlier one, entered again", "-", true, []string{"LOCK.ACQUIRE", "K", "OWNER", "me"}},
				{"an earlier one, released", "-", true, []string{"LOCK.RELEASE", "K"}},
				{"as many", "moves=1", false, nil},
				{"a later one", "max=5000,moves=4", false, nil},
				{"a later one, released", "moves=4", false, []string{"LOCK.RELEASE", "K"}},
			} {
				t.Run(mode+" "+c.name, func(t *testing.T) {
					first, a, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
					modes := strings.Fields(mode)
					token := first.Token(append([]string{key, "OWNER", "me"}, modes...)...)
					a.Attach(key, "me", token)
					h := a.Last(func(*hold.Hold) bool { return true })
					if n := h.Details().Moves; n != 1 {
						t.Fatalf("it was moved %d times", n)
					}
					defer locktest.BeginGrace(t, s, key)()
					writeMovedRecord(t, rdb, h, c.moves)
					if c.asks == nil {
						s.Watchdog.CheckAll()
					} else {
						c.asks[1] = key
						if reply := a.Do(append(c.asks, modes...)...); c.stays != (reply[0] == ':') {
							t.Errorf("answered %q", reply)
						}
					}
					if !c.stays {
						locktest.Want(t, locktest.Receive(t, a.Moved, locktest.Soon), key)
						locktest.Eventually(t, locktest.Soon, "the hold is dropped",
							func() bool { return a.Carrier.Holds() == 0 })
					} else if len(c.asks) == 0 || c.asks[0] != "LOCK.RELEASE" {
						locktest.Eventually(t, locktest.Soon, "its carrier is the one it was moved to", func() bool {
							r, _ := locktest.RecordOf(t, rdb, h)
							return r.Carrier == a.Carrier.Name
						})
						locktest.Want(t, rdb.Get(t.Context(), script.TombstoneKey(key, token, "other:1.1")).Val(),
							event.Moved+" "+a.Carrier.Name)
					} else if locktest.Exists(t, rdb, key) {
						t.Error("it is there")
					}
					if len(a.Losses) > 0 {
						t.Errorf("lost %s", <-a.Losses)
					}
				})
			}
		}
	})
}

// writeMovedRecord writes a record that gives h to a carrier that does not exist, after the given
// moves.
func writeMovedRecord(t testing.TB, rdb redis.UniversalClient, h *hold.Hold, moves string) {
	t.Helper()
	r, ok := locktest.RecordOf(t, rdb, h)
	if !ok {
		t.Fatal("no record")
	}
	text := script.RecordPrefix(r.Token, "other:1.1") + "1 1 " + strconv.FormatInt(r.Since, 10) + " " +
		strconv.FormatInt(r.TTL, 10) + " " + r.Options + " " + moves + " - -"
	key, field := script.RecordsKey(h.Key()), h.Owner()
	switch h.Mode() {
	case script.Write:
		field += ":write"
	case script.Plain:
		key, field = h.Key(), script.RecordField
	}
	if err := rdb.HSet(context.Background(), key, field, text).Err(); err != nil {
		t.Fatal(err)
	}
}
