package redistest

import (
	"strings"
	"testing"
	"time"
)

func TestClusterIsCompleteAtOnce(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := StartCluster(t)
	t.Logf("up after %v", time.Since(began))
	for i, n := range c.Nodes {
		slots, err := n.Client().Do(t.Context(), "CLUSTER", "SLOTS").Slice()
		if err != nil || len(slots) != 3 {
			t.Fatalf("node %d: got slots %v, %v", i, slots, err)
		}
		for _, r := range slots {
			if r := r.([]any); len(r) != 4 { // first slot, last slot, master, replica
				t.Errorf("node %d shows %v, want a master and a replica", i, r)
			}
		}
		role, err := n.Client().Info(t.Context(), "replication").Result()
		if want := map[bool]string{true: "role:master", false: "role:slave"}[i < 3]; err != nil || !strings.Contains(role, want) {
			t.Errorf("node %d: got %q, %v; want %s", i, role, err, want)
		}
	}
	for slot, want := range map[int]int{0: 0, 5460: 0, 5461: 1, 10922: 1, 10923: 2, 16383: 2} {
		if got := c.MasterOf(slot); got != c.Nodes[want] {
			t.Errorf("slot %d: got master %v, want node %d", slot, got, want)
		}
		if got := c.ReplicaOf(slot); got != c.Nodes[want+3] {
			t.Errorf("slot %d: got replica %v, want node %d", slot, got, want+3)
		}
	}
}

func TestFaultProxiesAreWhatTheClusterShows(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, ClusterOptions{Replicas: 1, FaultProxy: true})
	want := map[string]bool{}
	for i, n := range c.Nodes {
		want[n.Announced()] = true
		if n.Announced() == n.Addr || c.Addrs()[i] != n.Proxy.Addr() {
			t.Errorf("node %d at %s announces %s", i, n.Addr, n.Announced())
		}
	}
	for i, n := range c.Nodes {
		slots, err := n.Client().Do(t.Context(), "CLUSTER", "NODES").Text()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(slots) {
			addr, _, _ := strings.Cut(strings.Fields(line)[1], "@")
			if !want[addr] {
				t.Errorf("node %d shows %s, which is not a proxy", i, addr)
			}
		}
	}
	through := Connect(t, c.Addrs()[0])
	through.Want("+OK\r\n", "SET", KeyIn(0, "k"), "v")
	c.Nodes[0].Proxy.Freeze()
	through.Send(Command("PING"))
	through.WantSilence(20 * time.Millisecond)
	if err := c.stable(); err != nil {
		t.Errorf("a frozen proxy disturbs the cluster: %v", err)
	}
	c.Nodes[0].Proxy.Thaw()
	through.WantRead("+PONG\r\n")
}

func TestOneMasterAndManyReplicas(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, ClusterOptions{Masters: 1, Replicas: 2, NodeTimeout: 5 * time.Second})
	if len(c.Nodes) != 3 || c.MasterOf(0) != c.Nodes[0] || c.ReplicaOf(16383) != c.Nodes[1] {
		t.Errorf("got %d nodes, master %v, replica %v", len(c.Nodes), c.MasterOf(0), c.ReplicaOf(16383))
	}
	got, err := c.Nodes[0].Client().ConfigGet(t.Context(), "cluster-node-timeout").Result()
	if err != nil || got["cluster-node-timeout"] != "5000" {
		t.Errorf("got %v, %v; want 5000", got, err)
	}
}

func TestBadNodeArgumentIsReported(t *testing.T) {
	_, err := LaunchCluster(ClusterOptions{Args: []string{"--no-such-directive", "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Fatalf("got error %v, want one with the server's log", err)
	}
}
