package upstream

import (
	"context"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"leash/proxy/links"
)

// discoverSingle makes the topology of a single Redis. It asks for replicas only if sessions read
// from them.
func (u *Upstream) discoverSingle(ctx context.Context) error {
	addr := u.cfg.Addrs[0]
	if u.Topology() == nil {
		u.adopt(standalone(u.Node(addr)))
	}
	if !u.ReadsReplicas() {
		return nil
	}
	var info string
	err := u.Ask(ctx, addr, func(ctx context.Context, c *redis.Client) (err error) {
		info, err = c.Info(ctx, "replication").Result()
		return err
	})
	if err != nil {
		return err
	}
	u.adoptSingle(addr, replicasIn(info))
	return nil
}

// adoptSingle makes the topology of a master and its replicas the newest one.
func (u *Upstream) adoptSingle(master string, replicas []string) {
	n := u.Node(master)
	t := standalone(n)
	t.replicaCount, t.replicasKnown = len(replicas), true
	if u.ReadsReplicas() {
		for _, addr := range replicas {
			t.addReplicas(n, []*links.Node{u.Node(addr)})
		}
	}
	u.adopt(t)
	u.NoteHealthy(replicas)
}

// replicasIn reads the lines "slave0:ip=…,port=…,state=online,…" of INFO.
func replicasIn(info string) (addrs []string) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if !strings.HasPrefix(name, "slave") || !strings.Contains(value, "state=online") {
			continue
		}
		m := make(map[string]string)
		for field := range strings.SplitSeq(value, ",") {
			name, text, _ := strings.Cut(field, "=")
			m[name] = text
		}
		if m["ip"] != "" {
			addrs = append(addrs, net.JoinHostPort(m["ip"], m["port"]))
		}
	}
	return addrs
}

// replace puts a new Node in the place of n, the only master. All connections to n end: links,
// pinned ones, and those of go-redis and of lock scripts.
func (u *Upstream) replace(n *links.Node) {
	u.Remove(n)
	u.adoptSingle(n.Addr, nil)
	u.close(n)
	u.Refresh() // finds the replicas
	if u.onSwitch != nil {
		u.onSwitch()
	}
}
