package upstream

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/slots"
	"leash/proxy/topology"
)

// How often the topology is read: once per interval, and at most once per minRefresh. Every
// probeInterval, a new connection asks whether Redis requires authentication.
const (
	refreshInterval = 30 * time.Second
	minRefresh      = time.Second
	probeInterval   = 5 * time.Second
	lostRefresh     = 5 * time.Second // while a node is lost
)

// Refresh requests that the topology is read soon. It does not block or wait.
func (u *Upstream) Refresh() { links.Signal(u.refreshing) }

// discover reads the topology and adopts it, unless another goroutine has begun to read it since
// the given time. Only one goroutine reads at a time, so no older topology replaces a newer one.
func (u *Upstream) discover(ctx context.Context, since time.Time) (err error) {
	select {
	case u.discovering <- struct{}{}:
		defer func() { <-u.discovering }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if u.isFresh(since) {
		return nil
	}
	start := time.Now()
	switch u.cfg.Mode {
	case "standalone":
		return u.discoverSingle(ctx)
	case "sentinel":
		return u.followSentinels(ctx)
	}
	if err = u.discoverCluster(ctx); err == nil {
		u.discoveredAt.Store(&start)
	}
	return err
}

// discoverCluster asks the nodes until one knows the whole cluster. If none does, it adopts what
// the best of them knows.
func (u *Upstream) discoverCluster(ctx context.Context) (err error) {
	var best topology.Layout
	worth, found := 0, false
	for _, addr := range u.candidates() {
		l, failed := u.layoutAt(ctx, addr)
		if failed != nil {
			err = clearerError(err, failed)
			continue
		}
		w := l.Worth(u.knownIDs())
		if w > 0 {
			delete(u.foreign, addr)
		} else if !u.foreign[addr] {
			u.foreign[addr] = true
			u.log.Warn("a redis node does not know this cluster", "node", addr)
		}
		if !found || w > worth {
			best, worth, found = l, w, true
		}
		if w == slots.Count {
			break
		}
	}
	if !found {
		return err
	}
	u.ids.Store(&best.IDs)
	u.adopt(best)
	return nil
}

// layoutAt asks a node of a cluster for the topology.
func (u *Upstream) layoutAt(ctx context.Context, addr string) (topology.Layout, error) {
	var reply []any
	var nodes string
	err := u.Ask(ctx, addr, func(c *dial.Conn) (err error) {
		nodes, err = c.Text("CLUSTER", "NODES")
		if err != nil && !dial.IsReply(err) { // an error of Redis does no harm: CLUSTER SLOTS is enough
			return err
		}
		// servers before Redis 7 do not know CLUSTER SHARDS
		reply, err = c.List("CLUSTER", "SLOTS")
		return err
	})
	if err != nil {
		return topology.Layout{}, err
	}
	return topology.ParseCluster(reply, nodes, addr, u.cfg.TLS != nil)
}

// candidates returns the addresses to ask for the topology and for everything that any node can
// answer. Silent ones come last.
func (u *Upstream) candidates() []string {
	if u.followsSentinels() {
		return []string{u.Topology().Masters()[0].Addr}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	addrs := slices.Clone(u.peers)
	for _, seed := range u.cfg.Addrs {
		if !slices.Contains(addrs, seed) {
			addrs = append(addrs, seed)
		}
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	slices.SortStableFunc(addrs, func(a, b string) int { return u.silentLocked(a) - u.silentLocked(b) })
	return addrs
}

func (u *Upstream) silentLocked(addr string) int {
	if n := u.Nodes.Known(addr); u.silentAddrs[addr] || n != nil && n.Unresponsive() {
		return 1
	}
	return 0
}

// adopt makes l the newest topology, unless it changes nothing. It closes nodes that have left.
func (u *Upstream) adopt(l topology.Layout) {
	t := l.Snapshot(u.Nodes.Node, u.ReadsReplicas())
	u.mu.Lock()
	if l.Cluster {
		u.noteMembersLocked(l)
	}
	if old := u.Topology(); !t.Same(old) {
		u.topology.Store(t)
		u.logChange(old, t)
	}
	now := u.Topology()
	u.mu.Unlock()
	for _, n := range u.Nodes.All() {
		left := !now.Has(n)
		// a demoted master must not be used any more, so it is closed at once
		if n.Retire(left) || left && u.followsSentinels() {
			u.close(n)
		}
	}
	u.Nodes.NoteHealthy(l.Healthy)
}

// logChange logs the change from old, which may be nil, to t.
func (u *Upstream) logChange(old, t *topology.Snapshot) {
	attrs := []any{"masters", len(t.Masters())}
	if n := t.ReplicaCount(); n >= 0 {
		attrs = append(attrs, "replicas", n)
	}
	attrs = append(attrs, "cluster", t.Cluster())
	if old == nil {
		u.log.Info("topology found", attrs...)
		return
	}
	u.log.Info("topology changed", append([]any{"change", t.Changes(old)}, attrs...)...)
}

func (u *Upstream) noteMembersLocked(l topology.Layout) {
	u.peers, u.members = l.Peers, l.Members()
	maps.DeleteFunc(u.silentAddrs, func(addr string, _ bool) bool {
		return !slices.Contains(u.peers, addr) && !slices.Contains(u.cfg.Addrs, addr)
	})
}

// close ends a node that has left the topology. Its address may come back as a new node.
func (u *Upstream) close(n *links.Node) {
	u.mu.Lock()
	if u.Topology().Has(n) { // a redirect has brought the node back
		u.mu.Unlock()
		return
	}
	u.Nodes.Remove(n)
	u.mu.Unlock()
	n.Close()
}
