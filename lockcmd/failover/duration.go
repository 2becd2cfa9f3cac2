package failover

import (
	"context"
	"time"

	"leash/lockcmd/script/transport"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

// readGraceConfig updates the length of the grace period by one master: a lease plus the time that
// an old master may serve on. The longest value of all masters counts. A master that does not tell
// gets the usual value. An error means that nothing is known yet.
func (g *Masters) readGraceConfig(ctx context.Context, slot slots.Slot, addr string) error {
	g.mu.Lock()
	done := g.cfg.Grace != Auto || g.measured[addr]
	g.mu.Unlock()
	if done {
		return nil
	}
	name, each, overlap := "min-replicas-max-lag", time.Second, 10*time.Second
	if g.cfg.Redis.IsCluster {
		name, each, overlap = "cluster-node-timeout", time.Millisecond, 15*time.Second
	}
	until, _ := ctx.Deadline()
	value, err := g.cfg.Redis.ConfigValue(until, slot, name)
	if err != nil && transport.Judge(err) != transport.Answered {
		return err
	}
	n, told := resp.ParseInt([]byte(value))
	if told {
		overlap = time.Duration(n) * each
	}
	lasts := g.cfg.Lease + overlap
	g.mu.Lock()
	g.measured[addr] = true
	longer := int64(lasts) > g.duration.Load()
	if longer {
		g.duration.Store(int64(lasts))
	}
	g.mu.Unlock()
	if !told {
		g.cfg.Log.Warn("cannot read how long an old master may still serve: using the default",
			"node", addr, name, overlap, "err", err)
	}
	if !longer {
		return nil
	}
	// An old master serves up to 1.5 times the node timeout, and two thirds of a lease are left.
	if g.cfg.Redis.IsCluster && overlap > g.cfg.Lease*4/9 {
		g.cfg.Log.Warn("an isolated old master may serve longer than a lease: raise --watchdog-timeout or lower "+
			"cluster-node-timeout",
			"node", addr, name, overlap)
	}
	g.cfg.Log.Info("after a failover no locks are granted for a while",
		"for", lasts, "node", addr, name, value)
	return nil
}
