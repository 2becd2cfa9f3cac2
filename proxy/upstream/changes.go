package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"leash/proxy/links"
	"leash/proxy/slots"
)

const (
	logAgainAfter = time.Minute // the same change is logged once in this time
	maxMoves      = 4           // moves of slots that one line names
)

// changeLog logs changes of the topology. During a failover the nodes disagree for some seconds, so
// the same change may be found several times. It is logged once. Guarded by Upstream.mu.
type changeLog struct {
	logged map[string]time.Time
}

// log logs the change from old, which may be nil, to t.
func (c *changeLog) log(u *Upstream, old, t *Topology) {
	attrs := []any{"masters", len(t.masters)}
	if t.replicasKnown {
		attrs = append(attrs, "replicas", t.replicaCount)
	}
	attrs = append(attrs, "cluster", t.cluster)
	if old == nil {
		u.log.Info("topology found", attrs...)
		return
	}
	what := t.changesFrom(old)
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

// changesFrom describes the changes since old.
func (t *Topology) changesFrom(old *Topology) string {
	var all []string
	for _, n := range t.masters {
		if !slices.Contains(old.masters, n) {
			all = append(all, n.Addr+" is a master")
		}
	}
	for _, n := range old.masters {
		if !slices.Contains(t.masters, n) {
			all = append(all, n.Addr+" is no master")
		}
	}
	all = append(all, t.movesFrom(old)...)
	if len(all) == 0 {
		return "replicas, or masters without slots"
	}
	return strings.Join(all, ", ")
}

// movesFrom describes the slots whose owner is not the one in old.
func (t *Topology) movesFrom(old *Topology) (all []string) {
	type move struct{ from, to *links.Node }
	counts := make(map[move]int)
	var order []move
	for slot := range t.owner {
		m := move{old.Node(slots.Slot(slot)), t.Node(slots.Slot(slot))}
		if m.from == m.to {
			continue
		}
		if counts[m]++; counts[m] == 1 {
			order = append(order, m)
		}
	}
	for i, m := range order {
		if i == maxMoves {
			return append(all, "more slots moved")
		}
		all = append(all, fmt.Sprintf("%d slots from %s to %s", counts[m], nameOf(m.from), nameOf(m.to)))
	}
	return all
}

func nameOf(n *links.Node) string {
	if n == nil {
		return "nobody"
	}
	return n.Addr
}
