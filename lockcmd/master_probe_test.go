package lockcmd

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/lockcmd/script"
	"leash/proxy/resp"
)

// promoted returns a server that was a replica until now.
func promoted(t testing.TB) *redistest.Server {
	t.Helper()
	old, server := redistest.Start(t), redistest.Start(t)
	c := server.Client()
	host, port, _ := strings.Cut(old.Addr, ":")
	if err := c.Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the replica is there, and has been for a while", func() bool {
		info, err := c.Info(t.Context()).Result()
		age, ok := resp.ParseInt([]byte(infoField(info, "uptime_in_seconds")))
		return err == nil && infoField(info, "master_link_status") == "up" && ok && age >= 2
	})
	if err := c.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	return server
}

// TestR13GraceStartsAtTheMemoryLimit: A new master is detected although its memory is full.
func TestR13GraceStartsAtTheMemoryLimit(t *testing.T) {
	t.Parallel()
	server := promoted(t)
	if err := server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	s := leash(t, dialServer(t, server.Addr), Config{FailoverGrace: time.Hour})
	s.graces.probeAll(time.Now(), time.Now().Add(soon))
	if masters, _ := s.graces.active(); masters != 1 {
		t.Errorf("%d masters are in grace", masters)
	}
	if n := server.Client().Exists(t.Context(), "leash:master").Val(); n != 1 {
		t.Error("it has no mark")
	}
}

// TestR2GraceOfAMasterWithoutReplicas: Redis forgets that a master was promoted some time after its
// last replica has disconnected. Leash still knows it.
func TestR2GraceOfAMasterWithoutReplicas(t *testing.T) {
	t.Parallel()
	server := promoted(t)
	c := server.Client()
	first, second := leash(t, dialServer(t, server.Addr), graceConfig()), leash(t, dialServer(t, server.Addr), graceConfig())
	since := func(s *Service) int64 {
		s.graces.probeAll(time.Now(), time.Now().Add(soon))
		s.graces.mu.Lock()
		defer s.graces.mu.Unlock()
		return s.graces.slotOwners[0].master.since
	}
	before := since(first)
	if err := c.ConfigSet(t.Context(), "repl-backlog-ttl", "1").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "Redis has forgotten it", func() bool {
		info, err := c.Info(t.Context(), "replication").Result()
		return err == nil && strings.Trim(infoField(info, "master_replid2"), "0") == ""
	})
	if now := since(first); now < before {
		t.Errorf("a master since %d is one since %d", before, now)
	}
	if now := since(second); now < before {
		t.Errorf("a master since %d is one since %d for another Leash", before, now)
	}
}

// TestR2GraceConfigIsReadAgain: When the configuration of a master cannot be read, Leash tries
// again. The longest value of all masters counts.
func TestR2GraceConfigIsReadAgain(t *testing.T) {
	t.Parallel()
	nodes := make([]*redis.Client, 3)
	for i, lag := range []string{"20", "40", "30"} {
		nodes[i] = dialServer(t, redistest.Start(t).Addr)
		nodes[i].ConfigSet(t.Context(), "min-replicas-max-lag", lag)
	}
	g := newGracePeriods(leash(t, nodes[0], Config{WatchdogTimeout: time.Minute, FailoverGrace: GraceAuto}))
	lasts := func() time.Duration { return time.Duration(g.duration.Load()) }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.readGraceConfig(ctx, nodes[0]); err == nil || lasts() != 0 {
		t.Errorf("error %v, the grace lasts %v", err, lasts())
	}
	for i, want := range []time.Duration{80 * time.Second, 100 * time.Second, 100 * time.Second} {
		if err := g.readGraceConfig(t.Context(), nodes[i]); err != nil || lasts() != want {
			t.Errorf("error %v, the grace lasts %v, want %v", err, lasts(), want)
		}
	}
	silent := dialServer(t, redistest.Start(t).Addr)
	silent.Do(t.Context(), "ACL", "SETUSER", "default", "-config")
	if err := g.readGraceConfig(t.Context(), silent); err != nil || lasts() != 100*time.Second || !g.measured[silent.Options().Addr] {
		t.Errorf("error %v, the grace lasts %v", err, lasts())
	}
}

// TestR2GraceGrowsWithAMaster: A master with a longer setting lengthens a grace period that has
// begun.
func TestR2GraceGrowsWithAMaster(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, redistest.Start(t).Addr), Config{FailoverGrace: time.Hour})
	g := newGracePeriods(s)
	now := time.Now().UnixMilli()
	for i, lasts := range []time.Duration{time.Minute, 2 * time.Minute, time.Minute} {
		g.duration.Store(int64(lasts))
		g.noteProbe("addr", "id", "replid", now, now, []int{0}, time.Now())
		if left := g.left("key"); (left > time.Minute) != (i > 0) {
			t.Errorf("nothing is granted for %v", left)
		}
	}
}

// TestR2GraceEndIsNotLoggedForADeadMaster: A master dies in its grace period. Leash does not log
// that it grants locks before it comes back.
func TestR2GraceEndIsNotLoggedForADeadMaster(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, redistest.Start(t).Addr), Config{FailoverGrace: time.Hour})
	log := &logBuffer{}
	g := newGracePeriods(&Service{cfg: s.cfg, redis: s.redis, log: slog.New(slog.NewTextHandler(log, nil)), watchdog: s.watchdog})
	g.duration.Store(int64(time.Minute))
	now, began := time.Now().UnixMilli(), time.Now()
	g.noteProbe("addr", "id", "replid", now, now, []int{0}, began)
	g.masters["replid"].graceEnd = began.Add(time.Millisecond)
	<-time.After(2 * time.Millisecond)
	for i, said := range []int{0, 1, 1} {
		g.logEnds()
		if n := log.count("grants locks from now on"); n != said {
			t.Errorf("%d: said %d times, want %d", i, n, said)
		}
		g.noteProbe("addr", "id", "replid", now, now, []int{0}, time.Now())
	}
}

// TestR2GraceProbesEachMaster: A master that does not answer does not delay the probe of another
// one.
func TestR2GraceProbesEachMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	s := leash(t, dialCluster(t, cluster.Addrs()...), graceConfig(), graceful)
	key := newKey()
	elsewhere := redistest.KeyIn((script.SlotOf(key)+script.Slots/2)%script.Slots, "other")
	probeLock := s.graces.probeLock(s.graces.slotsWith(script.SlotOf(elsewhere))[0])
	probeLock <- struct{}{} // this master does not answer
	defer func() { <-probeLock }()
	if _, ok := s.graces.masterOf(elsewhere, time.Now(), time.Now().Add(100*time.Millisecond)); ok {
		t.Error("a master that does not answer was probed")
	}
	if _, ok := s.graces.masterOf(key, time.Now(), time.Now().Add(soon)); !ok {
		t.Error("another one was not")
	}
}
