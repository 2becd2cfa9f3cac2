package lockcmd

import (
	"context"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// promoted is a server that was a replica until now.
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
		age, ok := parseInt([]byte(infoField(info, "uptime_in_seconds")))
		return err == nil && infoField(info, "master_link_status") == "up" && ok && age >= 2
	})
	if err := c.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	return server
}

// TestR13GraceAtTheMemoryLimit: a new master is known as one also when it takes no more data.
func TestR13GraceAtTheMemoryLimit(t *testing.T) {
	server := promoted(t)
	if err := server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	s := leash(t, dialServer(t, server.Addr), Config{FailoverGrace: time.Hour})
	s.graces.look(time.Now(), time.Now().Add(soon))
	if masters, _ := s.graces.ongoing(); masters != 1 {
		t.Errorf("%d masters are in grace", masters)
	}
	if n := server.Client().Exists(t.Context(), "leash:master").Val(); n != 1 {
		t.Error("it has no mark")
	}
}

// TestR2GraceOfAMasterWithoutReplicas: Redis forgets that a master was promoted when its last replica has been gone for long.
func TestR2GraceOfAMasterWithoutReplicas(t *testing.T) {
	server := promoted(t)
	c := server.Client()
	first, second := leash(t, dialServer(t, server.Addr), graceConfig()), leash(t, dialServer(t, server.Addr), graceConfig())
	since := func(s *Service) int64 {
		s.graces.look(time.Now(), time.Now().Add(soon))
		s.graces.mu.Lock()
		defer s.graces.mu.Unlock()
		return s.graces.bonds[0].by.since
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

// TestR2GraceIsNotGuessed: a configuration that could not be read for now is read again.
func TestR2GraceIsNotGuessed(t *testing.T) {
	node := dialServer(t, redistest.Start(t).Addr)
	g := &graces{service: leash(t, node, Config{})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.measure(ctx, node); err == nil || g.lasts.Load() != 0 {
		t.Errorf("error %v, the grace lasts %v", err, time.Duration(g.lasts.Load()))
	}
	if err := g.measure(t.Context(), node); err != nil || g.lasts.Load() == 0 {
		t.Errorf("error %v, the grace lasts %v", err, time.Duration(g.lasts.Load()))
	}
}
