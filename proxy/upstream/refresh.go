package upstream

import (
	"context"
	"errors"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/topology"
)

// refreshTimeout is how long RefreshTopology waits.
const refreshTimeout = 500 * time.Millisecond

// RefreshTopology reads the topology, unless it was read within age. It returns false if no node
// answers in time; the old topology stays. It blocks for at most half a second.
func (u *Upstream) RefreshTopology(ctx context.Context, age time.Duration) bool {
	since := time.Now().Add(-age)
	if u.cfg.Mode != "cluster" || u.isFresh(since) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	u.refreshSince(ctx, since)
	return u.isFresh(since)
}

// refreshSince is discover for a caller that can go on with the old topology.
func (u *Upstream) refreshSince(ctx context.Context, since time.Time) {
	if err := u.discover(ctx, since); err != nil && ctx.Err() == nil {
		u.log.Warn("topology refresh failed", "err", err)
	}
}

// isFresh reports whether the topology of a cluster has been read at or after since.
func (u *Upstream) isFresh(since time.Time) bool {
	looked := u.discoveredAt.Load()
	return looked != nil && !looked.Before(since)
}

// SlotsStable asks every node that may have keys which slots it owns. It reports whether they are
// those of t and none is migrating. If not, it has read the topology again. It blocks until all
// nodes have answered. The error names a node that did not answer.
func (u *Upstream) SlotsStable(ctx context.Context, t *topology.Snapshot) (bool, error) {
	start := time.Now()
	nodes := t.Holders()
	answers := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() {
			answers <- guard.Call(u.log, "question for slots", func() error { return u.confirm(ctx, t, n) })
		}()
	}
	settled := true
	var failed error
	for range nodes {
		switch err := <-answers; {
		case errors.Is(err, errSlotsMoving):
			settled = false
		case err != nil:
			failed = err
		}
	}
	if failed == nil && !settled {
		u.refreshSince(ctx, start)
	}
	return settled, failed
}

// errSlotsMoving means that a node owns other slots than expected, or that some are migrating.
var errSlotsMoving = errors.New("upstream: slots are moving")

// confirm asks one node for its own line of CLUSTER NODES and compares it with t.
func (u *Upstream) confirm(ctx context.Context, t *topology.Snapshot, n *links.Node) error {
	var nodes string
	err := u.Ask(ctx, n.Addr, func(c *dial.Conn) (err error) {
		nodes, err = c.Text("CLUSTER", "NODES")
		return err
	})
	if err != nil {
		return err
	}
	stable, err := t.Confirms(n, nodes)
	if err == nil && !stable {
		return errSlotsMoving
	}
	return err
}
