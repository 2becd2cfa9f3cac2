package upstream

import (
	"log/slog"
	"testing"

	"leash/proxy/topology"
)

// TestRedirectWithoutHost checks where go-redis is sent by a redirect that names no host.
func TestRedirectWithoutHost(t *testing.T) {
	u, err := New(Config{Addrs: []string{"10.0.0.1:7001"}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	u.Nodes.End() // the nodes are not watched
	u.adopt(topology.Layout{Cluster: true, Slotless: []string{"[fd00::3]:7003"}, Ranges: []topology.Range{
		{First: 0, Last: 99, Addrs: []string{"10.0.0.1:7001"}},
		{First: 100, Last: 199, Addrs: []string{"redis.host:7002"}},
	}})
	for addr, want := range map[string]string{
		":7001": "10.0.0.1:7001", ":7002": "redis.host:7002", "?:7003": "[fd00::3]:7003", ":7004": ":7004",
		"10.0.0.9:7001": "10.0.0.9:7001", "": "",
	} {
		if got := u.withHost(addr); got != want {
			t.Errorf("%q: got %q, want %q", addr, got, want)
		}
	}
}
