package failover

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/linktest"
	"leash/internal/redistest"
	"leash/lockcmd/script"
	"leash/proxy/resp"
	"leash/proxy/slots"
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
	eventually(t, "the replica is there, and has been for a while", func() bool {
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
	g := mastersOf(t, dial(t, server.Addr), time.Hour, &logBuffer{})
	g.ProbeAll(time.Now(), time.Now().Add(soon))
	if masters, _ := g.Active(); masters != 1 {
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
	rdb := dial(t, server.Addr)
	first, second := mastersOf(t, rdb, time.Hour, &logBuffer{}), mastersOf(t, rdb, time.Hour, &logBuffer{})
	since := func(g *Masters) int64 {
		g.ProbeAll(time.Now(), time.Now().Add(soon))
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.slotOwners[0].master.since
	}
	before := since(first)
	if err := c.ConfigSet(t.Context(), "repl-backlog-ttl", "1").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Redis has forgotten it", func() bool {
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
		nodes[i] = dial(t, redistest.Start(t).Addr)
		nodes[i].ConfigSet(t.Context(), "min-replicas-max-lag", lag)
	}
	g := mastersOf(t, nodes[0], Auto, &logBuffer{})
	lasts := func() time.Duration { return time.Duration(g.duration.Load()) }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.readGraceConfig(ctx, 0, "a"); err == nil || lasts() != 0 {
		t.Errorf("error %v, the grace lasts %v", err, lasts())
	}
	limited, stop := context.WithTimeout(t.Context(), soon)
	defer stop()
	for i, want := range []time.Duration{80 * time.Second, 100 * time.Second, 100 * time.Second} {
		g.cfg.Redis = script.New(linktest.Open(t, nodes[i], nil))
		if err := g.readGraceConfig(limited, 0, strconv.Itoa(i)); err != nil || lasts() != want {
			t.Errorf("error %v, the grace lasts %v, want %v", err, lasts(), want)
		}
	}
	silent := dial(t, redistest.Start(t).Addr)
	silent.Do(t.Context(), "ACL", "SETUSER", "default", "-config")
	g.cfg.Redis = script.New(linktest.Open(t, silent, nil))
	err := g.readGraceConfig(limited, 0, "silent")
	if err != nil || lasts() != 100*time.Second || !g.measured["silent"] {
		t.Errorf("error %v, the grace lasts %v", err, lasts())
	}
}

// TestR2GraceGrowsWithAMaster: A master with a longer setting lengthens a grace period that has
// begun.
func TestR2GraceGrowsWithAMaster(t *testing.T) {
	t.Parallel()
	g := mastersOf(t, dial(t, redistest.Start(t).Addr), time.Hour, &logBuffer{})
	now := time.Now().UnixMilli()
	for i, lasts := range []time.Duration{time.Minute, 2 * time.Minute, time.Minute} {
		g.duration.Store(int64(lasts))
		g.noteProbe("addr", "id", "replid", now, now, []slots.Slot{0}, time.Now())
		if left := g.Left("key"); (left > time.Minute) != (i > 0) {
			t.Errorf("nothing is granted for %v", left)
		}
	}
}

// TestR2GraceEndIsNotLoggedForADeadMaster: A master dies in its grace period. Leash does not log
// that it grants locks before it comes back.
func TestR2GraceEndIsNotLoggedForADeadMaster(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	g := mastersOf(t, dial(t, redistest.Start(t).Addr), time.Hour, log)
	g.duration.Store(int64(time.Minute))
	now, began := time.Now().UnixMilli(), time.Now()
	g.noteProbe("addr", "id", "replid", now, now, []slots.Slot{0}, began)
	g.masters["replid"].graceEnd = began.Add(time.Millisecond)
	<-time.After(2 * time.Millisecond)
	for i, said := range []int{0, 1, 1} {
		g.logEnds()
		if n := log.count("grants locks from now on"); n != said {
			t.Errorf("%d: said %d times, want %d", i, n, said)
		}
		g.noteProbe("addr", "id", "replid", now, now, []slots.Slot{0}, time.Now())
	}
}

// TestR2GraceProbesEachMaster: A master that does not answer does not delay the probe of another
// one.
func TestR2GraceProbesEachMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	g := mastersOf(t, dialCluster(t, cluster.Addrs()), time.Hour, &logBuffer{})
	key, elsewhere := redistest.KeyIn(1, "key"), redistest.KeyIn(1+slots.Count/2, "other")
	probing := g.probeLock(g.slotsWith(g.slot(elsewhere))[0])
	probing <- struct{}{} // as if it did not answer
	defer func() { <-probing }()
	if _, ok := g.MasterOf(elsewhere, time.Now(), time.Now().Add(100*time.Millisecond)); ok {
		t.Error("a master that does not answer was probed")
	}
	eventually(t, "another one is probed", func() bool {
		_, ok := g.MasterOf(key, time.Now(), time.Now().Add(soon))
		return ok
	})
}

// TestR2GraceMovesWithItsSlot: A slot that moves to another master keeps the grace period of its
// old master. The move itself starts none.
func TestR2GraceMovesWithItsSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	g := mastersOf(t, dialCluster(t, cluster.Addrs()), time.Hour, &logBuffer{})
	const slot, elsewhere = 1, 1 + slots.Count/3
	Rehearsal{g}.Never()
	defer Rehearsal{g}.Begin(redistest.KeyIn(slot, "key"), time.Now().Add(soon))()
	move := func(slot, to slots.Slot) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.setOwnerLocked(slot, g.slotOwners[to].master)
	}
	move(slot, elsewhere)
	key := redistest.KeyIn(slot, "key")
	if left := g.Left(key); left < time.Minute || g.GrantingMaster(key) != "-" {
		t.Errorf("the slot's grace is over in %v, and %q may grant", left, g.GrantingMaster(key))
	}
	move(elsewhere, elsewhere+slots.Count/3)
	if left := g.Left(redistest.KeyIn(elsewhere, "other")); left > 0 {
		t.Errorf("a slot that moved is in grace for %v", left)
	}
}

// TestR2GraceAuto: The automatic grace period is one TTL, plus the time after which Redis's
// configuration stops an old master.
func TestR2GraceAuto(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	config, err := cluster.Nodes[0].Client().ConfigGet(t.Context(), "cluster-node-timeout").Result()
	ms, ok := resp.ParseInt([]byte(config["cluster-node-timeout"]))
	if err != nil || !ok {
		t.Fatal(config, err)
	}
	for what, row := range map[string]struct {
		rdb     redis.UniversalClient
		overlap time.Duration
	}{
		"single":  {dial(t, redistest.Start(t).Addr), 10 * time.Second}, // min-replicas-max-lag
		"cluster": {dialCluster(t, cluster.Addrs()), script.Millis(ms)},
	} {
		g := mastersOf(t, row.rdb, Auto, &logBuffer{})
		eventually(t, what+" has told its configuration", func() bool {
			g.ProbeAll(time.Now(), time.Now().Add(soon))
			return g.duration.Load() != 0
		})
		if got, want := time.Duration(g.duration.Load()), time.Minute+row.overlap; got != want {
			t.Errorf("%s: a grace period lasts %v, want %v", what, got, want)
		}
	}
}
