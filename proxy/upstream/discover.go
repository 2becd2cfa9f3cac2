package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// How often the topology is read: once per interval, and at most once per minRefresh. Every
// probeInterval, a new connection asks whether Redis requires authentication.
const (
	refreshInterval = 30 * time.Second
	minRefresh      = time.Second
	probeInterval   = 5 * time.Second
)

// askTimeout bounds one question about the topology to one node.
const askTimeout = 2 * time.Second

// errNotCovered means that no node owns a slot of the cluster.
var errNotCovered = errors.New("upstream: no node of the cluster owns any slot")

// Refresh requests that the topology is read soon. It does not block or wait.
func (u *Upstream) Refresh() {
	select {
	case u.refreshing <- struct{}{}:
	default:
	}
}

var (
	errNotCluster    = errors.New("--upstream-mode is cluster, but the Redis there has cluster support disabled")
	errNotStandalone = errors.New("--upstream-mode is standalone, but the Redis there is a node of a cluster")
	errIsSentinel    = errors.New("the server there is a sentinel: name its master with --sentinel-master")
	errNoSuchMaster  = errors.New("no such master")
)

func isWrongMode(err error) bool {
	for _, wrong := range []error{errNotCluster, errNotStandalone, errIsSentinel, errNotSentinel, errNoSuchMaster} {
		if errors.Is(err, wrong) {
			return true
		}
	}
	return false
}

// probe asks the first node that answers for its mode.
func (u *Upstream) probe(ctx context.Context) (err error) {
	if u.followsSentinels() {
		if err := u.discover(ctx); err != nil {
			return err
		}
	}
	for _, addr := range u.candidates() {
		var info string
		u.maxBulk = defaultMaxBulk
		failed := u.ask(ctx, addr, func(ctx context.Context, c *redis.Client) (err error) {
			if config, err := c.ConfigGet(ctx, "proto-max-bulk-len").Result(); err == nil {
				u.setMaxBulk(config["proto-max-bulk-len"])
			}
			info, err = c.Info(ctx).Result()
			return err
		})
		if failed != nil {
			if isReply(failed) && u.isSentinel(ctx, addr) {
				return fmt.Errorf("%s: %w", addr, errIsSentinel)
			}
			err = clearerError(err, failed)
			continue
		}
		u.version = infoField(info, "redis_version")
		u.setMaxClients(info)
		if err := u.setMode(modeOf(info)); err != nil {
			return fmt.Errorf("%s: %w", addr, err)
		}
		return u.probeAuth(ctx, addr)
	}
	return err
}

// setMode compares the mode that Redis reports with the configured one.
func (u *Upstream) setMode(reported string) error {
	switch {
	case reported == "sentinel":
		return errIsSentinel
	case u.cfg.Mode == "sentinel":
	case u.cfg.Mode == "cluster" && reported != "cluster":
		return errNotCluster
	case u.cfg.Mode == "standalone" && reported == "cluster":
		return errNotStandalone
	case reported == "cluster":
		u.cfg.Mode = "cluster"
	default:
		u.cfg.Mode = "standalone"
	}
	return nil
}

// isSentinel reports whether the server at addr is a sentinel. It uses the sentinels' credential,
// because a sentinel may refuse the upstream's.
func (u *Upstream) isSentinel(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c := u.sentinelClient(addr)
	defer c.Close()
	info, err := c.Info(ctx, "server").Result()
	return err == nil && modeOf(info) == "sentinel"
}

// defaultMaxBulk is Redis's default proto-max-bulk-len, used when Redis cannot be asked.
// leastMaxBulk is the smallest value that can be set.
const (
	defaultMaxBulk = 512 << 20
	leastMaxBulk   = 1 << 20
)

func (u *Upstream) setMaxBulk(config string) {
	if n, err := strconv.ParseInt(config, 10, 64); err == nil && n >= leastMaxBulk {
		u.maxBulk = n
	}
}

// probeAuth finds out whether Redis requires clients to authenticate.
func (u *Upstream) probeAuth(ctx context.Context, addr string) error {
	conn, err := u.dial(ctx, addr, Lane{}, false)
	if err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	return conn.Close()
}

// discover reads the topology and adopts it. Only one goroutine reads at a time, so no older
// topology replaces a newer one.
func (u *Upstream) discover(ctx context.Context) (err error) {
	select {
	case u.discovering <- struct{}{}:
		defer func() { <-u.discovering }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return u.discoverLocked(ctx)
}

// discoverLocked is discover for a goroutine that has put a value into the channel discovering.
func (u *Upstream) discoverLocked(ctx context.Context) (err error) {
	start := time.Now()
	switch u.cfg.Mode {
	case "standalone":
		return u.discoverSingle(ctx)
	case "sentinel":
		return u.followSentinels(ctx)
	}
	for _, addr := range u.candidates() {
		var reply []any
		var nodes string
		failed := u.ask(ctx, addr, func(ctx context.Context, c *redis.Client) (err error) {
			nodes, _ = c.ClusterNodes(ctx).Result() // may fail: CLUSTER SLOTS is enough
			// servers before Redis 7 do not know CLUSTER SHARDS
			reply, err = c.Do(ctx, "CLUSTER", "SLOTS").Slice()
			return err
		})
		slots := parseSlotsReply(reply, addr)
		if failed == nil && len(slots) == 0 {
			failed = errNotCovered
		}
		if failed == nil {
			u.adopt(u.parseSlots(slots, nodes, addr))
			u.noteHealthy(parseNodes(healthyLines(nodes), addr, false))
			u.discoveredAt.Store(&start)
			return nil
		}
		err = clearerError(err, failed)
	}
	return err
}

// candidates returns the addresses to ask for the topology and for everything that any node can
// answer. Silent ones come last.
func (u *Upstream) candidates() []string {
	if u.followsSentinels() {
		return []string{u.Topology().masters[0].Addr}
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
	if n := u.nodes[addr]; u.silentAddrs[addr] || n != nil && n.unresponsive.Load() {
		return 1
	}
	return 0
}

// parseSlots makes a topology from the replies to CLUSTER SLOTS and CLUSTER NODES. CLUSTER NODES
// also lists nodes that own no slot yet.
func (u *Upstream) parseSlots(slots []slotOwners, nodes, asked string) *Topology {
	ranges := make([]slotRange, 0, len(slots))
	named := u.cfg.TLS != nil && haveNames(slots)
	peers, members := parseNodes(nodes, asked, named), make(map[string]bool)
	for _, s := range slots {
		for _, addr := range s.addrs {
			if members[addr] = true; !slices.Contains(peers, addr) {
				peers = append(peers, addr)
			}
		}
		r := slotRange{first: uint16(s.first), last: uint16(s.last), node: u.node(s.addrs[0])}
		if u.ReadsReplicas() {
			for _, addr := range s.addrs[1:] {
				r.replicas = append(r.replicas, u.node(addr))
			}
		}
		ranges = append(ranges, r)
	}
	t := clusterOf(ranges)
	t.replicaCount, t.replicasKnown = countReplicas(nodes), nodes != ""
	for _, addr := range slotless(nodes, asked, named) {
		t.slotless = append(t.slotless, u.node(addr))
		members[addr] = true
	}
	u.mu.Lock()
	u.peers, u.members = peers, members
	maps.DeleteFunc(u.silentAddrs, func(addr string, _ bool) bool {
		return !slices.Contains(peers, addr) && !slices.Contains(u.cfg.Addrs, addr)
	})
	u.mu.Unlock()
	return t
}

// healthyLines are the lines of CLUSTER NODES about working nodes.
func healthyLines(nodes string) string {
	var well strings.Builder
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) >= 8 && fields[7] == "connected" && !slices.ContainsFunc(strings.Split(fields[2], ","),
			isFailing) {
			well.WriteString(line)
		}
	}
	return well.String()
}

// countReplicas returns the number of working replicas in CLUSTER NODES. CLUSTER SLOTS leaves out
// replicas that have not received a write.
func countReplicas(nodes string) (n int) {
	for line := range strings.Lines(healthyLines(nodes)) {
		if slices.Contains(strings.Split(strings.Fields(line)[2], ","), "slave") {
			n++
		}
	}
	return n
}

// slotless returns the addresses of working masters without slots in the reply to CLUSTER NODES.
// Such a master may have keys of a slot that it is about to get.
func slotless(nodes, asked string, named bool) (addrs []string) {
	for line := range strings.Lines(healthyLines(nodes)) {
		fields := strings.Fields(line)
		if slices.ContainsFunc(fields[8:], ownsSlots) || !slices.Contains(strings.Split(fields[2], ","), "master") {
			continue
		}
		both := addrsIn(fields[1], asked)
		if named {
			both = both[len(both)-1:]
		}
		addrs = append(addrs, both[0])
	}
	return addrs
}

// isFailing reports whether a flag means that a node fails or that the cluster does not know it
// yet.
func isFailing(flag string) bool {
	return flag == "fail" || flag == "fail?" || flag == "handshake" || flag == "noaddr"
}

// ownsSlots reports whether a field after the eighth of CLUSTER NODES names slots of the node. A
// slot in brackets is being moved.
func ownsSlots(field string) bool { return field[0] != '[' }

// haveNames reports whether a cluster's nodes are reached by host names. With TLS, certificates
// then usually have no IP addresses.
func haveNames(slots []slotOwners) bool {
	for _, s := range slots {
		if host, _, err := net.SplitHostPort(s.addrs[0]); err == nil && net.ParseIP(host) == nil {
			return true
		}
	}
	return false
}

// parseNodes returns the addresses in the reply to CLUSTER NODES. A line has the form "<id>
// <ip:port@cport[,hostname[,…]]> <flags> …". If named is set, the IP address of a node with a host
// name is left out.
func parseNodes(nodes, asked string, named bool) (addrs []string) {
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.Contains(fields[2], "noaddr") {
			continue
		}
		both := addrsIn(fields[1], asked)
		if named {
			both = both[len(both)-1:]
		}
		addrs = append(addrs, both...)
	}
	return addrs
}

// addrsIn returns the addresses in the second field of a line of CLUSTER NODES: the one with the IP
// address, and then the one with the host name if there is one.
func addrsIn(field, asked string) []string {
	endpoint, names, _ := strings.Cut(field, ",")
	endpoint, _, _ = strings.Cut(endpoint, "@")
	addrs := []string{completeAddr(endpoint, asked)}
	host, _, _ := strings.Cut(names, ",")
	if _, port, err := net.SplitHostPort(endpoint); err == nil && host != "" && !strings.Contains(host, "=") {
		addrs = append(addrs, net.JoinHostPort(host, port))
	}
	return addrs
}

// adopt makes t the newest topology, unless it changes nothing. It closes nodes that have left.
func (u *Upstream) adopt(t *Topology) {
	u.mu.Lock()
	if old := u.Topology(); !t.same(old) {
		u.topology.Store(t)
		u.reloadLocked()
		u.changes.log(u, old, t)
	}
	nodes := u.nodesLocked()
	now := u.Topology()
	u.mu.Unlock()
	for _, n := range nodes {
		left := !now.has(n)
		// a demoted master must not be used any more, so it is closed at once
		if n.retire(left) || left && u.followsSentinels() {
			u.close(n)
		}
	}
}

// close ends a node that has left the topology. Its address may come back as a new node.
func (u *Upstream) close(n *Node) {
	u.mu.Lock()
	if u.Topology().has(n) { // a redirect has brought the node back
		u.mu.Unlock()
		return
	}
	if u.nodes[n.Addr] == n {
		delete(u.nodes, n.Addr)
	}
	u.mu.Unlock()
	u.log.Info("redis node left", "node", n.Addr)
	n.cancel(ErrClosed)
}

// completeAddr fills in the host that Redis leaves out ("?" or empty) for the node that was asked.
func completeAddr(addr, asked string) string {
	host, port, err := net.SplitHostPort(addr)
	if i := strings.LastIndexByte(addr, ':'); err != nil && i > 0 {
		return net.JoinHostPort(addr[:i], addr[i+1:]) // Redis puts no brackets around IPv6
	}
	if err != nil || host != "" && host != "?" {
		return addr
	}
	host, _, _ = net.SplitHostPort(asked)
	return net.JoinHostPort(host, port)
}

// isAddr reports whether addr is a host and a port that can be dialled.
func isAddr(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && n > 0 && host != "" && len(host) <= 255
}

// modeOf returns the server's mode. Redis names it redis_mode and Valkey server_mode. Some services
// leave both out. Then the line about cluster support decides.
func modeOf(info string) string {
	for _, name := range []string{"redis_mode", "server_mode"} {
		if mode := infoField(info, name); mode != "" {
			return mode
		}
	}
	if infoField(info, "cluster_enabled") == "1" {
		return "cluster"
	}
	return ""
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
