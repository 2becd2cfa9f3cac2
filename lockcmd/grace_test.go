package lockcmd

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/lockcmd/failover"
	"leash/lockcmd/view"
	"leash/proxy/slots"
)

// graceTTL is the TTL in tests where a master fails. It is long enough for renewals on a busy
// machine.
const graceTTL = 15 * time.Second

// staleReplica is a replica that has missed the last writes of its master. fail kills the master
// and promotes the replica.
type staleReplica struct {
	t       testing.TB
	cluster *redistest.Cluster
	slot    int
	replica *redistest.Node
}

// cutReplica stops replication to the replica of the master of key.
func cutReplica(t testing.TB, cluster *redistest.Cluster, key string) *staleReplica {
	t.Helper()
	slot := int(slots.Of([]byte(key)))
	f := &staleReplica{t: t, cluster: cluster, slot: slot, replica: cluster.ReplicaOf(slot)}
	c := f.replica.Client()
	// replication cannot start again
	if err := c.ConfigSet(t.Context(), "masterauth", "wrong").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the replica is cut off", func() bool {
		c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "master")
		info, err := c.Info(t.Context(), "replication").Result()
		return err == nil && infoField(info, "master_link_status") == "down"
	})
	return f
}

// fail makes the replica the master.
func (f *staleReplica) fail() {
	f.t.Helper()
	if err := f.cluster.MasterOf(f.slot).Kill(); err != nil {
		f.t.Fatal(err)
	}
	if err := f.cluster.Failover(f.replica, "TAKEOVER"); err != nil {
		f.t.Fatal(err)
	}
}

// TestR2FailoverWithoutGraceGrantsAHeldLock: Without a grace period, a new master grants a lock
// that somebody holds. The holder is told at its next renewal.
func TestR2FailoverWithoutGraceGrantsAHeldLock(t *testing.T) {
	t.Parallel() // mostly waiting
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1, NodeTimeout: time.Minute})
	rdb := dialCluster(t, cluster.Addrs()...)
	cfg := Config{WatchdogTimeout: 10 * time.Minute} // no renewal during the test
	s := leash(t, rdb, cfg)
	a, b := connect(t, s), connect(t, leash(t, rdb, cfg))
	key := newKey()
	f := cutReplica(t, cluster, key)
	a.token(key)
	f.fail()
	eventually(t, soon, "the other one has it too", func() bool { return b.do("LOCK.ACQUIRE", key)[0] == ':' })
	if ttl := a.do("LOCK.TTL", key); ttl == ":-2" || len(a.losses) > 0 {
		t.Errorf("the first connection does not hold it any more: %s", ttl)
	}
	s.Watchdog.CheckAll()
	want(t, receive(t, a.losses, soon), key+" gone")
	want(t, a.do("LOCK.TTL", key), ":-2")
}

// TestR2Grace: During the grace period, a new master grants no lock that somebody may hold. Leash
// restores there what the master forgot.
func TestR2Grace(t *testing.T) {
	t.Parallel() // mostly waiting
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1, NodeTimeout: time.Minute})
	rdb := dialCluster(t, cluster.Addrs()...)
	cfg := Config{WatchdogTimeout: graceTTL, FailoverGrace: graceTTL}
	s, other := leash(t, rdb, cfg), leash(t, rdb, cfg)
	a, b := connect(t, s), connect(t, other)
	key := newKey()
	endGracePeriods(t, s)
	endGracePeriods(t, other)
	f := cutReplica(t, cluster, key)
	token := a.token(key)
	start := time.Now()
	f.fail()
	waiting := b.await(other, 1, key, "BLOCK", "0")
	eventually(t, soon, "the hold is restored", func() bool { return s.Stats().Restored == 1 })
	want(t, a.do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
	want(t, a.do("LOCK.RELEASE", key), ":1")
	if next := tokenOf(t, receive(t, waiting, 2*graceTTL)); next <= token {
		t.Errorf("token %d after %d", next, token)
	}
	if waited := time.Since(start); waited < graceTTL {
		t.Errorf("granted after %v", waited)
	}
	if len(a.losses) != 0 {
		t.Errorf("lost %s", <-a.losses)
	}
}

// TestR2GraceGrantsNothingNew: During the grace period, free locks count as taken and existing
// holds continue.
func TestR2GraceGrantsNothingNew(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, graceConfig(), graceful)
		a, b, key := connect(t, s), connect(t, s), newKey()
		held, sem, counter := "{"+key+"}held", "{"+key+"}sem", "{"+key+"}counter"
		token := strconv.FormatInt(a.token(held, "OWNER", "me"), 10)
		a.do("SEM.INIT", sem, "2")
		end := beginGrace(t, s, key)
		for _, mode := range []string{"", "FAIR", "READ", "WRITE"} {
			args := []string{"LOCK.ACQUIRE", key}
			if mode != "" {
				args = append(args, mode)
			}
			want(t, b.do(args...), "$-1")
			want(t, b.do(append(args, "BLOCK", "20")...), "$-1")
		}
		want(t, b.do("LOCK.MACQUIRE", "2", key, "{"+key+"}2"), "*-1")
		want(t, b.do("LOCK.MACQUIRE", "2", key, "{"+key+"}2", "QUORUM", "1"), "*-1")
		want(t, b.do("SEM.ACQUIRE", sem), "$-1")
		if info := b.do("LOCK.INFO", key); !strings.Contains(info, view.Grace) {
			t.Errorf("LOCK.INFO says %q", info)
		}
		if stats := s.Stats(); stats.GraceMasters != 1 || stats.GraceLeft <= 0 {
			t.Errorf("%d masters in grace for %v", stats.GraceMasters, stats.GraceLeft)
		}
		want(t, b.do("SEM.GIVE", counter, "1"), ":1")
		want(t, b.do("SEM.TAKE", counter), ":1")
		want(t, b.do("LATCH.SET", key+"latch", "1"), ":1")

		want(t, a.do("LOCK.ACQUIRE", held, "OWNER", "me"), ":"+token)
		want(t, a.do("LOCK.RELEASE", held), ":0")
		want(t, b.do("LOCK.ATTACH", held, "OWNER", "me", "TOKEN", token), ":"+token)
		freed := a.await(s, 1, held, "BLOCK", "0")
		free := connect(t, s).await(s, 1, key, "BLOCK", "0")
		fair := connect(t, s).await(s, 2, key, "FAIR", "BLOCK", "0")
		permits := connect(t, s).start("SEM.ACQUIRE", sem, "BLOCK", "0")
		eventually(t, soon, "it waits", func() bool { return s.Stats().Waiters == 4 })
		want(t, b.do("LOCK.RELEASE", held), ":1")
		select {
		case r := <-freed:
			t.Errorf("granted in grace: %s", r)
		case r := <-free:
			t.Errorf("granted in grace: %s", r)
		case <-time.After(50 * time.Millisecond):
		}
		end()
		tokenOf(t, receive(t, freed, soon))
		wantPrefix(t, receive(t, permits, soon), "$32")
		select {
		case r := <-free:
			tokenOf(t, r)
		case r := <-fair:
			tokenOf(t, r)
		case <-time.After(soon):
			t.Error("a free lock is not granted when the grace is over")
		}
	})
}

// TestR2GraceOfARestart: A server that restarts without its data has a grace period. A server whose
// connections broke has none.
func TestR2GraceOfARestart(t *testing.T) {
	t.Parallel() // mostly waiting
	takesLong(t)
	server := redistest.Start(t)
	rdb := dialServer(t, server.Addr)
	cfg := Config{WatchdogTimeout: graceTTL, FailoverGrace: graceTTL}
	s, other := leash(t, rdb, cfg), leash(t, rdb, cfg)
	endGracePeriods(t, s)
	endGracePeriods(t, other)
	a, b, key := connect(t, s), connect(t, other), newKey()
	a.token(key)
	rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	want(t, a.do("LOCK.RELEASE", key), ":1")
	token := a.token(key)
	killed := time.Now()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	waiting := b.await(other, 1, key, "BLOCK", "0")
	eventually(t, soon, "the hold is restored", func() bool { return s.Stats().Restored == 1 })
	want(t, a.do("LOCK.RELEASE", key), ":1")
	if next := tokenOf(t, receive(t, waiting, 2*graceTTL)); next <= token || time.Since(killed) < graceTTL ||
		len(a.losses) > 0 {
		t.Errorf("token %d after %d, after %v", next, token, time.Since(killed))
	}
}

// endGracePeriods ends the grace periods of the masters that a Leash finds at its start.
func endGracePeriods(t testing.TB, s *Service) {
	t.Helper()
	if (failover.Rehearsal{Masters: s.Graces}).EndAll(time.Now().Add(soon)) == 0 {
		t.Fatal("no master is known")
	}
}

// TestR2NoGraceWithoutAFailover: A first replica gives a master a new replication ID. That starts
// no grace period. Neither does a slot that moves.
func TestR2NoGraceWithoutAFailover(t *testing.T) {
	t.Parallel() // mostly waiting
	cfg := Config{WatchdogTimeout: 6 * time.Second, FailoverGrace: 6 * time.Second}
	t.Run("first replica", func(t *testing.T) {
		server, replica := redistest.Start(t), redistest.Start(t)
		s := leash(t, dialServer(t, server.Addr), cfg)
		a := connect(t, s)
		a.token(newKey(), "BLOCK", "0") // waits for the grace period of the new server
		before := s.Graces.GrantingMaster("")
		host, port, _ := strings.Cut(server.Addr, ":")
		if err := replica.Client().Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, soon, "the master has a new id", func() bool {
			a.token(newKey())
			return s.Graces.GrantingMaster("") != before
		})
	})
	t.Run("slot", func(t *testing.T) {
		cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
		s := leash(t, dialCluster(t, cluster.Addrs()...), cfg)
		a, key := connect(t, s), newKey()
		for i := range 3 { // waits for the grace periods of the new servers
			a.token(redistest.KeyIn(i*slots.Count/3+1, "young"), "BLOCK", "0")
		}
		from := cluster.MasterOf(int(slots.Of([]byte(key))))
		for _, n := range cluster.Masters() {
			if n == from {
				continue
			}
			m, err := cluster.BeginMove(int(slots.Of([]byte(key))), n)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Finish(); err != nil {
				t.Fatal(err)
			}
			break
		}
		a.token(key)
		if masters, left := s.Graces.Active(); masters > 0 {
			t.Errorf("%d masters are in grace for %v", masters, left)
		}
	})
}

// TestR2GraceOfOlderHolds: A failover forgets an EXTEND and a second acquire. Leash corrects both
// before any client notices.
func TestR2GraceOfOlderHolds(t *testing.T) {
	t.Parallel() // mostly waiting
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1, NodeTimeout: time.Minute})
	rdb := dialCluster(t, cluster.Addrs()...)
	s := leash(t, rdb, Config{WatchdogTimeout: graceTTL, FailoverGrace: graceTTL})
	a, key := connect(t, s), newKey()
	twice := redistest.KeyIn(int(slots.Of([]byte(key))), "twice")
	endGracePeriods(t, s)
	a.token(key, "LEASE", "60000")
	a.token(twice, "OWNER", "me")
	replica := cluster.ReplicaOf(int(slots.Of([]byte(key)))).Client()
	eventually(t, soon, "the replica has both", func() bool { return replica.DBSize(t.Context()).Val() >= 4 })
	f := cutReplica(t, cluster, key)
	want(t, a.do("LOCK.EXTEND", key, "600000"), ":600000")
	a.token(twice, "OWNER", "me")
	f.fail()
	eventually(t, soon, "the lease is as long as it was", func() bool {
		return rdb.PTTL(t.Context(), key).Val() > 5*time.Minute
	})
	eventually(t, soon, "the count is as it was", func() bool {
		return rdb.HGet(t.Context(), twice, "me").Val() == "2"
	})
	want(t, a.do("LOCK.RELEASE", twice), ":0")
	want(t, a.do("LOCK.RELEASE", twice), ":1")
	want(t, a.do("LOCK.RELEASE", key), ":1")
	if len(a.losses) > 0 {
		t.Errorf("lost %s", <-a.losses)
	}
}
