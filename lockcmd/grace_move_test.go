package lockcmd

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
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
	rdb := dialCluster(t, cluster.Addrs()...)
	cfg := Config{WatchdogTimeout: graceTTL, FailoverGrace: graceTTL}
	s, other := leash(t, rdb, cfg), leash(t, rdb, cfg)
	endGracePeriods(t, s)
	endGracePeriods(t, other)
	sem := newKey()
	slot := int(slots.Of([]byte(sem)))
	// Each kind of hold has its own connections, because ATTACH closes the old one.
	type moving struct {
		key, mode string
		a, b      *conn
		token     int64
	}
	var all []*moving
	for _, mode := range []string{"", "LEASE", "READ", "WRITE", "repeated"} {
		m := &moving{key: redistest.KeyIn(slot, "moving"+mode), mode: mode, a: connect(t, s), b: connect(t, other)}
		args := []string{m.key, "OWNER", "me", "ID", "1"}
		switch mode {
		case "LEASE":
			args = append(args, "LEASE", "600000")
		case "READ", "WRITE":
			args = append(args, mode)
		}
		m.token = m.a.token(args...)
		all = append(all, m)
	}
	permitA, permitB := connect(t, s), connect(t, other)
	want(t, permitA.do("SEM.INIT", sem, "3"), ":1")
	permit := permitA.do("SEM.ACQUIRE", sem, "ID", "1")
	master, replica := cluster.MasterOf(slot).Client(), cluster.ReplicaOf(slot).Client()
	eventually(t, soon, "the replica has all", func() bool {
		return master.DBSize(t.Context()).Val() == replica.DBSize(t.Context()).Val()
	})
	f := cutReplica(t, cluster, sem)
	want(t, permitB.do("SEM.ACQUIRE", sem, "ID", "1"), permit)
	for _, m := range all {
		if m.mode == "repeated" {
			m.b.token(m.key, "OWNER", "me", "ID", "1")
			continue
		}
		m.b.attach(m.key, "me", m.token)
		want(t, receive(t, m.a.moved, soon), m.key)
	}
	eventually(t, soon, "the first Leash knows of all moves", func() bool { return s.Stats().Holds == 0 })
	f.fail()
	eventually(t, soon, "all have the carriers they were moved to", func() bool {
		hanging := 0
		for _, h := range other.heldIn(slot) {
			r, ok := recordOf(t, rdb, h)
			if ok && r.Carrier == h.Carrier.Name && !other.Graces.NeedsRepair(h.Key(), &h.Watch) {
				hanging++
			}
		}
		return hanging == len(all)+1
	})
	for _, m := range all {
		want(t, m.b.do("LOCK.CHECK", m.key, "TOKEN", strconv.FormatInt(m.token, 10)), ":1")
		want(t, m.b.do("LOCK.RELEASE", m.key), ":1")
		if len(m.a.losses)+len(m.b.losses)+len(m.b.moved) > 0 {
			t.Errorf("a hold that was moved was told of again, mode %q", m.mode)
		}
	}
	want(t, permitB.do("SEM.RELEASE", sem), ":1")
	if len(permitA.losses)+len(permitB.losses)+len(permitB.moved) > 0 {
		t.Error("a permit that was moved was told of again")
	}
}

// heldIn returns this Leash's holds in a slot.
func (s *Service) heldIn(slot int) (holds []*hold.Hold) {
	for _, h := range s.allHolds() {
		if int(slots.Of([]byte(h.Key()))) == slot {
			holds = append(holds, h)
		}
	}
	return holds
}

// recordOf returns Redis's record of a hold.
func recordOf(t testing.TB, rdb redis.UniversalClient, h *hold.Hold) (script.Record, bool) {
	t.Helper()
	key, field := script.RecordsKey(h.Key()), h.Owner()
	switch h.Mode() {
	case script.Write:
		field += ":write"
	case script.Plain, script.Fair:
		key, field = h.Key(), script.RecordField
	}
	return script.ParseRecord(rdb.HGet(t.Context(), key, field).Val())
}

// TestR2GraceCountsMoves: After a failover, two carriers have the same hold. The carrier of the
// later move keeps it, and the other one is told.
func TestR2GraceCountsMoves(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := graceConfig()
		cfg.WatchdogTimeout = 10 * time.Minute // no renewal during the test
		s := leash(t, rdb, cfg, graceful)
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
					first, a, key := connect(t, s), connect(t, s), newKey()
					modes := strings.Fields(mode)
					token := first.token(append([]string{key, "OWNER", "me"}, modes...)...)
					a.attach(key, "me", token)
					h := a.carrier.last(func(*hold.Hold) bool { return true })
					if n := h.Details().Moves; n != 1 {
						t.Fatalf("it was moved %d times", n)
					}
					defer beginGrace(t, s, key)()
					writeMovedRecord(t, rdb, h, c.moves)
					if c.asks == nil {
						s.Watchdog.CheckAll()
					} else {
						c.asks[1] = key
						if reply := a.do(append(c.asks, modes...)...); c.stays != (reply[0] == ':') {
							t.Errorf("answered %q", reply)
						}
					}
					if !c.stays {
						want(t, receive(t, a.moved, soon), key)
						eventually(t, soon, "the hold is dropped", func() bool { return a.carrier.Holds() == 0 })
					} else if len(c.asks) == 0 || c.asks[0] != "LOCK.RELEASE" {
						eventually(t, soon, "its carrier is the one it was moved to", func() bool {
							r, _ := recordOf(t, rdb, h)
							return r.Carrier == a.carrier.Name
						})
						want(t, rdb.Get(t.Context(), script.TombstoneKey(key, token, "other:1.1")).Val(),
							event.Moved+" "+a.carrier.Name)
					} else if exists(t, rdb, key) {
						t.Error("it is there")
					}
					if len(a.losses) > 0 {
						t.Errorf("lost %s", <-a.losses)
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
	r, ok := recordOf(t, rdb, h)
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
