package upstream

import (
	"maps"
	"time"

	"leash/proxy/topology"
)

// logAgainAfter is the time in which the same change is logged once.
const logAgainAfter = time.Minute

// changeLog logs changes of the topology. During a failover the nodes disagree for some seconds, so
// the same change may be found several times. It is logged once. Guarded by Upstream.mu.
type changeLog struct {
	logged map[string]time.Time
}

// log logs the change from old, which may be nil, to t.
func (c *changeLog) log(u *Upstream, old, t *topology.Snapshot) {
	attrs := []any{"masters", len(t.Masters())}
	if n := t.ReplicaCount(); n >= 0 {
		attrs = append(attrs, "replicas", n)
	}
	attrs = append(attrs, "cluster", t.Cluster())
	if old == nil {
		u.log.Info("topology found", attrs...)
		return
	}
	what := t.Changes(old)
	now := time.Now()
	maps.DeleteFunc(c.logged, func(_ string, at time.Time) bool { return now.Sub(at) > logAgainAfter })
	if _, again := c.logged[what]; again {
		return
	}
	if c.logged == nil {
		c.logged = make(map[string]time.Time)
	}
	c.logged[what] = now
	u.log.Info("topology changed", append([]any{"change", what}, attrs...)...)
}
