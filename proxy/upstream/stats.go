package upstream

import (
	"context"

	"leash/proxy/links"
	"leash/proxy/topology"
)

// Stats are figures about Redis for metrics.
type Stats struct {
	Masters int // that own slots
	Usable  int // masters that answer, see Upstream.Usable
	links.Stats
}

// Stats returns the figures of this moment. It visits every link, of which pinned ones may be many.
func (u *Upstream) Stats() Stats {
	s := Stats{Stats: u.Nodes.Stats()}
	if t := u.Topology(); t != nil {
		s.Masters, s.Usable = len(t.Masters()), usable(t)
	}
	return s
}

// Usable reports whether a master has answered its last PING. A master whose connection breaks
// counts as unusable at once, one that is silent within 2 s; Answers knows it earlier. Before
// Connect has returned, no master is usable. Usable does not block.
func (u *Upstream) Usable() bool {
	t := u.Topology()
	return t != nil && usable(t) > 0
}

func usable(t *topology.Snapshot) (n int) {
	for _, m := range t.Masters() {
		if m.Usable() {
			n++
		}
	}
	return n
}

// Answers reports whether a master answers now: links.Answer.
func (u *Upstream) Answers(ctx context.Context) bool {
	return links.Answer(ctx, func() []*links.Node { return u.Topology().Masters() })
}
