package redistest

import (
	"strings"
	"testing"
	"time"
)

func TestClusterIsCompleteAtOnce(t *testing.T) {
	began := time.Now()
	c := StartCluster(t)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the cluster took %v to come up", took)
	} else {
		t.Logf("up after %v", took)
	}
	for i, n := range c.Nodes {
		slots, err := n.Client().ClusterSlots(t.Context()).Result()
		if err != nil || len(slots) != 3 {
			t.Fatalf("node %d: got slots %v, %v", i, slots, err)
		}
		for _, r := range slots {
			if len(r.Nodes) != 2 {
				t.Errorf("node %d knows %d nodes for slots %d-%d, want 2", i, len(r.Nodes), r.Start, r.End)
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
