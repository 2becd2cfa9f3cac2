package upstream

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestClientKnowsTheTopologyWithoutAsking: the client of scripts follows a
// failover as soon as Leash does, though a frozen node answers nobody.
func TestClientKnowsTheTopologyWithoutAsking(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1, NodeTimeout: time.Minute})
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
	for until := time.Now().Add(30 * time.Second); u.Topology().Node(uint16(slot)).Addr != replica.Announced(); {
		if time.Now().After(until) {
			t.Fatal("the new master is not found")
		}
		if err := u.discover(t.Context()); err != nil {
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
		if time.Since(began) > 8*time.Second { // after 10 go-redis looks in any case
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
		t.Errorf("nobody answers: %v, %v", slots, err)
	}
}
