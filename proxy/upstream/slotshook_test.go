package upstream

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/proxy/slots"
)

// TestClientFollowsFailoverWithoutAsking checks that the go-redis client of scripts follows a
// failover as soon as Leash does, although a frozen node does not answer.
func TestClientFollowsFailoverWithoutAsking(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1, NodeTimeout: time.Minute})
	u := runBefore(t, cluster)
	key := "k"
	c, slot := u.Client(), redistest.Slot(key)
	if err := c.Set(t.Context(), key, "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	old, replica := cluster.MasterOf(slot), cluster.ReplicaOf(slot)
	if err := old.Pause(); err != nil {
		t.Fatal(err)
	}
	defer old.Resume()
	if err := replica.Client().Do(t.Context(), "CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(30 * time.Second); u.Topology().Node(slots.Slot(slot)).Addr != replica.Announced(); {
		if time.Now().After(until) {
			t.Fatal("the new master is not found")
		}
		if err := u.discover(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := c.Set(ctx, key, "2", 0).Err()
		cancel()
		if err == nil {
			break
		}
		if time.Since(began) > 8*time.Second {
			t.Fatalf("the client has not followed: %v", err)
		}
	}
	for _, n := range cluster.Nodes {
		if n != old {
			if err := n.Pause(); err != nil {
				t.Fatal(err)
			}
			defer n.Resume()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	if slots, err := c.ClusterSlots(ctx).Result(); err != nil || len(slots) == 0 {
		t.Errorf("no node answers: %v, %v", slots, err)
	}
}

// TestRefreshAfterMoved checks that Leash refreshes its topology when go-redis follows a MOVED
// by itself.
func TestRefreshAfterMoved(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	u := runBefore(t, cluster)
	for i, send := range []func(key string) error{
		func(key string) error { return u.Client().Set(t.Context(), key, "1", 0).Err() },
		func(key string) error {
			_, err := u.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error {
				return p.Set(t.Context(), key, "1", 0).Err()
			})
			return err
		},
	} {
		slot := 100 + i
		key, from := redistest.KeyIn(slot, "k"), cluster.MasterOf(slot)
		to := cluster.Nodes[0]
		if to == from {
			to = cluster.Nodes[1]
		}
		if err := cluster.MoveSlot(slot, to); err != nil {
			t.Fatal(err)
		}
		if n := u.Topology().Node(slots.Slot(slot)); n.Addr != from.Announced() {
			t.Fatalf("slot %d is known to be on %s too early", slot, n.Addr)
		}
		if err := send(key); err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(15 * time.Second); u.Topology().Node(
			slots.Slot(slot)).Addr != to.Announced(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) { // it looks every 30 s in any case
				t.Fatalf("slot %d is not found", slot)
			}
		}
	}
}

// runBefore runs an Upstream for a cluster, with all its goroutines.
func runBefore(t *testing.T, cluster *redistest.Cluster) *Upstream {
	t.Helper()
	u, err := New(Config{Addrs: cluster.Addrs(), Mode: "cluster"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- u.Run(running) }()
	t.Cleanup(func() { u.CloseClients(); stop(); <-done })
	return u
}
