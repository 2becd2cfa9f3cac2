package failover_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/failover"
	"leash/lockcmd/view"
	"leash/proxy/slots"
)

// graceTTL is the TTL in tests where a master fails. It is long enough for renewals on a busy
// machine.
const graceTTL = 15 * time.Second

// staleReplica is a replica that has missed the last writes of its master. fail kills the master
// and promotes the replica. A test then asks the replica itself: go-redis may take a minute until
// it finds the new master.
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
	locktest.Eventually(t, locktest.Soon, "the replica is cut off", func() bool {
		c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "master")
		info, err := c.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:down")
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
	rdb := locktest.DialCluster(t, cluster.Addrs()...)
	cfg := lockcmd.Config{WatchdogTimeout: 10 * time.Minute} // no renewal during the test
	s := locktest.Start(t, rdb, cfg)
	a, b := locktest.Connect(t, s), locktest.Connect(t, locktest.Start(t, rdb, cfg))
	key := locktest.NewKey()
	f := cutReplica(t, cluster, key)
	a.Token(key)
	f.fail()
	locktest.Eventually(t, locktest.Soon, "the other one has it too",
		func() bool { return b.Do("LOCK.ACQUIRE", key)[0] == ':' })
	if ttl := a.Do("LOCK.TTL", key); ttl == ":-2" || len(a.Losses) > 0 {
		t.Errorf("the first connection does not hold it any more: %s", ttl)
	}
	s.Watchdog.CheckAll()
	locktest.Want(t, locktest.Receive(t, a.Losses, locktest.Soon), key+" gone")
	locktest.Want(t, a.Do("LOCK.TTL", key), ":-2")
}

// TestR2Grace: During the grace period, a new master grants no lock that somebody may hold. Leash
// restores there what the master forgot.
func TestR2Grace(t *testing.T) {
	t.Parallel() // mostly waiting
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1, NodeTimeout: time.Minute})
	rdb := locktest.DialCluster(t, cluster.Addrs()...)
	cfg := lockcmd.Config{WatchdogTimeout: graceTTL, FailoverGrace: graceTTL}
	s, other := locktest.Start(t, rdb, cfg), locktest.Start(t, rdb, cfg)
	a, b := locktest.Connect(t, s), locktest.Connect(t, other)
	key := locktest.NewKey()
	endGracePeriods(t, s)
	endGracePeriods(t, other)
	f := cutReplica(t, cluster, key)
	token := a.Token(key)
	start := time.Now()
	f.fail()
	waiting := b.Await(other, 1, key, "BLOCK", "0")
	locktest.Eventually(t, locktest.Soon, "the hold is restored", func() bool { return s.Stats().Restored == 1 })
	locktest.Want(t, a.Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	if next := locktest.TokenOf(t, locktest.Receive(t, waiting, 2*graceTTL)); next <= token {
		t.Errorf("token %d after %d", next, token)
	}
	if waited := time.Since(start); waited < graceTTL {
		t.Errorf("granted after %v", waited)
	}
	if len(a.Losses) != 0 {
		t.Errorf("lost %s", <-a.Losses)
	}
}

// TestR2GraceGrantsNothingNew: During the grace period, free locks count as taken and existing
// holds continue.
func TestR2GraceGrantsNothingNew(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, locktest.GraceConfig(), locktest.Graceful)
		a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
		held, sem, counter := "{"+key+"}held", "{"+key+"}sem", "{"+key+"}counter"
		token := strconv.FormatInt(a.Token(held, "OWNER", "me"), 10)
		a.Do("SEM.INIT", sem, "2")
		end := locktest.BeginGrace(t, s, key)
		for _, mode := range []string{"", "FAIR", "READ", "WRITE"} {
			args := []string{"LOCK.ACQUIRE", key}
			if mode != "" {
				args = append(args, mode)
			}
			locktest.Want(t, b.Do(args...), "$-1")
			locktest.Want(t, b.Do(append(args, "BLOCK", "20")...), "$-1")
		}
		locktest.Want(t, b.Do("LOCK.MACQUIRE", "2", key, "{"+key+"}2"), "*-1")
		locktest.Want(t, b.Do("LOCK.MACQUIRE", "2", key, "{"+key+"}2", "QUORUM", "1"), "*-1")
		locktest.Want(t, b.Do("SEM.ACQUIRE", sem), "$-1")
		if info := b.Do("LOCK.INFO", key); !strings.Contains(info, view.Grace) {
			t.Errorf("LOCK.INFO says %q", info)
		}
		if stats := s.Stats(); stats.GraceMasters != 1 || stats.GraceLeft <= 0 {
			t.Errorf("%d masters in grace for %v", stats.GraceMasters, stats.GraceLeft)
		}
		locktest.Want(t, b.Do("SEM.GIVE", counter, "1"), ":1")
		locktest.Want(t, b.Do("SEM.TAKE", counter), ":1")
		locktest.Want(t, b.Do("LATCH.SET", key+"latch", "1"), ":1")

		locktest.Want(t, a.Do("LOCK.ACQUIRE", held, "OWNER", "me"), ":"+token)
		locktest.Want(t, a.Do("LOCK.RELEASE", held), ":0")
		locktest.Want(t, b.Do("LOCK.ATTACH", held, "OWNER", "me", "TOKEN", token), ":"+token)
		freed := a.Await(s, 1, held, "BLOCK", "0")
		free := locktest.Connect(t, s).Await(s, 1, key, "BLOCK", "0")
		fair := locktest.Connect(t, s).Await(s, 2, key, "FAIR", "BLOCK", "0")
		permits := locktest.Connect(t, s).Start("SEM.ACQUIRE", sem, "BLOCK", "0")
		locktest.Eventually(t, locktest.Soon, "it waits", func() bool { return s.Stats().Waiters == 4 })
		locktest.Want(t, b.Do("LOCK.RELEASE", held), ":1")
		select {
		case r := <-freed:
			t.Errorf("granted in grace: %s", r)
		case r := <-free:
			t.Errorf("granted in grace: %s", r)
		case <-time.After(50 * time.Millisecond):
		}
		end()
		locktest.TokenOf(t, locktest.Receive(t, freed, locktest.Soon))
		locktest.WantPrefix(t, locktest.Receive(t, permits, locktest.Soon), "$32")
		select {
		case r := <-free:
			locktest.TokenOf(t, r)
		case r := <-fair:
			locktest.TokenOf(t, r)
		case <-time.After(locktest.Soon):
			t.Error("a free lock is not granted when the grace is over")
		}
	})
}

// TestR2GraceOfARestart: A server that restarts without its data has a grace period. A server whose
// connections broke has none.
func TestR2GraceOfARestart(t *testing.T) {
	t.Parallel() // mostly waiting
	locktest.TakesLong(t)
	server := redistest.Start(t)
	rdb := locktest.DialServer(t, server.Addr)
	cfg := lockcmd.Config{WatchdogTimeout: graceTTL, FailoverGrace: graceTTL}
	s, other := locktest.Start(t, rdb, cfg), locktest.Start(t, rdb, cfg)
	endGracePeriods(t, s)
	endGracePeriods(t, other)
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, other), locktest.NewKey()
	a.Token(key)
	rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	token := a.Token(key)
	killed := time.Now()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	waiting := b.Await(other, 1, key, "BLOCK", "0")
	locktest.Eventually(t, locktest.Soon, "the hold is restored", func() bool { return s.Stats().Restored == 1 })
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	if next := locktest.TokenOf(t, locktest.Receive(t, waiting, 2*graceTTL)); next <= token ||
		time.Since(killed) < graceTTL ||
		len(a.Losses) > 0 {
		t.Errorf("token %d after %d, after %v", next, token, time.Since(killed))
	}
}

// endGracePeriods ends the grace periods of the masters that a Leash finds at its start.
func endGracePeriods(t testing.TB, s *lockcmd.Service) {
	t.Helper()
	if (failover.Rehearsal{Masters: s.Graces}).EndAll(time.Now().Add(locktest.Soon)) == 0 {
		t.Fatal("no master is known")
	}
}

// TestR2NoGraceWithoutAFailover: A first replica gives a master a new replication ID. That starts
// no grace period. Neither does a slot that moves.
func TestR2NoGraceWithoutAFailover(t *testing.T) {
	t.Parallel() // mostly waiting
	cfg := lockcmd.Config{WatchdogTimeout: 6 * time.Second, FailoverGrace: 6 * time.Second}
	t.Run("first replica", func(t *testing.T) {
		server, replica := redistest.Start(t), redistest.Start(t)
		s := locktest.Start(t, locktest.DialServer(t, server.Addr), cfg)
		a := locktest.Connect(t, s)
		a.Token(locktest.NewKey(), "BLOCK", "0") // waits for the grace period of the new server
		before := s.Graces.GrantingMaster("")
		host, port, _ := strings.Cut(server.Addr, ":")
		if err := replica.Client().Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
			t.Fatal(err)
		}
		locktest.Eventually(t, locktest.Soon, "the master has a new id", func() bool {
			a.Token(locktest.NewKey())
			return s.Graces.GrantingMaster("") != before
		})
	})
	t.Run("slot", func(t *testing.T) {
		cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
		s := locktest.Start(t, locktest.DialCluster(t, cluster.Addrs()...), cfg)
		a, key := locktest.Connect(t, s), locktest.NewKey()
		for i := range 3 { // waits for the grace periods of the new servers
			a.Token(redistest.KeyIn(i*slots.Count/3+1, "young"), "BLOCK", "0")
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
		a.Token(key)
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
	rdb := locktest.DialCluster(t, cluster.Addrs()...)
	s := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: graceTTL, FailoverGrace: graceTTL})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	twice := redistest.KeyIn(int(slots.Of([]byte(key))), "twice")
	endGracePeriods(t, s)
	a.Token(key, "LEASE", "60000")
	a.Token(twice, "OWNER", "me")
	replica := cluster.ReplicaOf(int(slots.Of([]byte(key)))).Client()
	locktest.Eventually(t, locktest.Soon, "the replica has both",
		func() bool { return replica.DBSize(t.Context()).Val() >= 4 })
	f := cutReplica(t, cluster, key)
	locktest.Want(t, a.Do("LOCK.EXTEND", key, "600000"), ":600000")
	a.Token(twice, "OWNER", "me")
	f.fail()
	locktest.Eventually(t, locktest.Soon, "the lease is as long as it was", func() bool {
		return replica.PTTL(t.Context(), key).Val() > 5*time.Minute
	})
	locktest.Eventually(t, locktest.Soon, "the count is as it was", func() bool {
		return replica.HGet(t.Context(), twice, "me").Val() == "2"
	})
	locktest.Want(t, a.Do("LOCK.RELEASE", twice), ":0")
	locktest.Want(t, a.Do("LOCK.RELEASE", twice), ":1")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	if len(a.Losses) > 0 {
		t.Errorf("lost %s", <-a.Losses)
	}
}
