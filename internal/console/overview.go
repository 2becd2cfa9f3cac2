package console

import (
	"encoding/json"
	"time"

	"leash/internal/histogram"
	"leash/lockcmd/view"
	"leash/proxy"
	"leash/proxy/links"
)

// overviewAge is how old the figures of an overview may be.
const overviewAge = time.Second

func (c *Console) showOverview(q question) (any, error) {
	return json.RawMessage(c.figures(q.Backend)), nil
}

// figures returns the overview in JSON. It reads the figures at most once a second, for all.
func (c *Console) figures(b *Backend) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.overview == nil || time.Since(c.read) >= overviewAge {
		c.overview, _ = json.Marshal(c.overviewOf(b.Server.Figures(), b.Server.Nodes()))
		c.read = time.Now()
	}
	return c.overview
}

func (c *Console) overviewOf(f proxy.Figures, nodes []links.NodeView) map[string]any {
	return map[string]any{
		"version": c.cfg.Version, "ready": c.cfg.Ready(), "draining": f.Draining,
		"at_ms": time.Now().UnixMilli(), "uptime_ms": f.Uptime.Milliseconds(), "panics": f.Panics,
		"clients": map[string]any{
			"now": f.Clients, "limit": f.ClientsLimit, "blocked": f.Blocked, "accepted": f.Accepted, "refused": f.Refused,
		},
		"traffic": map[string]any{
			"received_bytes": f.ReceivedBytes, "sent_bytes": f.SentBytes, "commands": f.Commands, "errors": f.Errors,
		},
		"latency": map[string]any{
			"bounds_us": boundsMicros(), "redis": counts(f.Upstream.RoundTrips), "waits": counts(f.Locks.WaitTimes),
		},
		"locks":      locksOf(f.Locks),
		"nodes":      nodesOf(nodes),
		"links_lost": f.Upstream.ConnectionsLost,
	}
}

func locksOf(s view.Stats) map[string]any {
	return map[string]any{
		"holds": s.Holds, "by_mode": s.HoldsByMode, "waiters": s.Waiters, "acquires": s.Acquires,
		"releases": s.Releases, "handovers": s.Handovers, "taken": s.Taken, "timeouts": s.Timeouts,
		"limited": s.Limited, "losses": s.Losses, "unrenewed": s.Unrenewed, "lag_ms": s.RenewalLag.Milliseconds(),
		"margin_ms": marginMillis(s.RenewalMargin), "grace_ms": s.GraceLeft.Milliseconds(),
	}
}

// marginMillis is -1 if there is no hold.
func marginMillis(margin time.Duration) int64 {
	if margin < 0 {
		return -1
	}
	return margin.Milliseconds()
}

// node is a node of Redis in JSON.
type node struct {
	Addr      string `json:"addr"`
	Role      string `json:"role"`
	Usable    bool   `json:"usable"`
	Busy      bool   `json:"busy"`
	RoundTrip int64  `json:"round_trip_us"` // 0 if unknown
	Shared    int    `json:"shared_links"`
	Detour    int    `json:"detour_links"`
	Pinned    int    `json:"pinned_links"`
}

func nodesOf(views []links.NodeView) []node {
	nodes := make([]node, 0, len(views))
	for _, v := range views {
		nodes = append(nodes, node{
			v.Addr, v.Role, v.Usable, v.Busy, v.RoundTrip.Microseconds(), v.SharedLinks, v.DetourLinks, v.PinnedLinks,
		})
	}
	return nodes
}

// boundsMicros are the upper limits of the counts in microseconds.
func boundsMicros() (bounds []int64) {
	for _, b := range histogram.Bounds {
		bounds = append(bounds, b.Microseconds())
	}
	return bounds
}

func counts(s histogram.Snapshot) []uint64 { return s.Counts[:] }
