package redistest

import (
	"testing"
	"time"
)

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	began := time.Now()
	g := StartSentinel(t, SentinelOptions{Password: "pw", SentinelPassword: "secret"})
	t.Logf("up after %v", time.Since(began))
	first := g.Master()
	if first != g.Servers[0] {
		t.Fatalf("got master %v, want the first server", first)
	}
	second, err := g.Failover()
	if err != nil || second == first {
		t.Fatalf("got %v, %v; want another master", second, err)
	}
	t.Logf("asked for a new master: there after %v", time.Since(began))
	if err := second.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Errorf("the new master: %v", err)
	}
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	third, err := g.AwaitMaster(second, time.Minute)
	if err != nil || third == second {
		t.Fatalf("got %v, %v; want another master", third, err)
	}
	t.Logf("killed the master: another there after %v", time.Since(began))
}
