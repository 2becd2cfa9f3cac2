package redistest

import (
	"slices"
	"testing"
	"time"
)

const failoverTimeout = 60 * time.Second

func TestFailoverAfterKill(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	old, replica := c.MasterOf(100), c.ReplicaOf(100)
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	if c.MasterOf(100) == old {
		t.Fatal("a killed node counts as master")
	}
	if got := c.ReplicaOf(100); got != replica && c.MasterOf(100) != replica {
		t.Errorf("got %v, want the replica found without its master", got)
	}
	got, err := c.AwaitMaster(100, old, failoverTimeout)
	if err != nil || got != replica {
		t.Fatalf("got %v, %v; want the replica", got, err)
	}
	if err := old.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitStable(failoverTimeout); err != nil {
		t.Fatal(err)
	}
	if got := c.ReplicaOf(100); got != old {
		t.Errorf("got %v, want the old master as replica", got)
	}
}

func TestFailoverByHand(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	if err := c.Failover(c.Nodes[3]); err != nil {
		t.Fatal(err)
	}
	if got := c.MasterOf(0); got != c.Nodes[3] {
		t.Errorf("got %v, want node 3", got)
	}
	paused := c.MasterOf(16000)
	if err := paused.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := c.Failover(c.Nodes[5], "TAKEOVER"); err != nil {
		t.Fatal(err)
	}
	if got := c.MasterOf(16000); got != c.Nodes[5] {
		t.Errorf("got %v, want node 5", got)
	}
	if err := paused.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitStable(failoverTimeout); err != nil {
		t.Fatal(err)
	}
	if want := []*Node{c.Nodes[1], c.Nodes[3], c.Nodes[5]}; !slices.Equal(c.Masters(), want) {
		t.Errorf("got masters %v, want nodes 1, 3, 5", c.Masters())
	}
}

func TestGrowAndShrink(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, ClusterOptions{FaultProxy: true})
	n, err := c.AddMaster()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.MoveSlot(0, n); err != nil {
		t.Fatal(err)
	}
	replica, err := c.AddReplica(n)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.ReplicaOf(0); got != replica {
		t.Errorf("got replica %v, want the new one", got)
	}
	if err := c.Remove(replica); err != nil {
		t.Fatal(err)
	}
	if err := c.MoveSlot(0, c.Nodes[1]); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(n); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitStable(failoverTimeout); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes {
		if v, err := n.view(); err != nil || len(v) != 3 {
			t.Errorf("%s knows %d nodes, %v; want 3", n.Addr, len(v), err)
		}
	}
}
