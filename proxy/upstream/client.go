package upstream

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/proxy/dial"
)

// Ask runs f with a short-lived client of the upstream user for one node, for at most
// dial.AskTimeout.
func (u *Upstream) Ask(ctx context.Context, addr string, f func(context.Context, *redis.Client) error) error {
	err := u.Dialer.Ask(ctx, addr, f)
	// otherwise the caller's time ended first, which says nothing about the node
	if answered := err == nil || dial.IsReply(err); answered || ctx.Err() == nil {
		u.noteAnswer(addr, answered)
	}
	return err
}

// noteAnswer remembers whether a node answered when it was asked last.
func (u *Upstream) noteAnswer(addr string, answered bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if answered {
		delete(u.silentAddrs, addr)
	} else {
		u.silentAddrs[addr] = true
	}
}

// Client returns the go-redis client of database 0. It is for Leash's own commands, which do not
// use links. Call it after Connect.
func (u *Upstream) Client() redis.UniversalClient { return u.Database(0) }

// Database returns the go-redis client of a database. Each call returns the same one. CloseClients
// closes it. A cluster has only database 0. It does not block.
func (u *Upstream) Database(db int) redis.UniversalClient {
	addrs := u.candidates()
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.clients[db]
	if c == nil {
		c = u.newClient(addrs, db)
		u.clients[db] = c
	}
	return c
}

// CloseClients closes all clients that Client and Database have returned. Call it when their users
// have ended.
func (u *Upstream) CloseClients() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for db, c := range u.clients {
		c.Close()
		delete(u.clients, db)
	}
}

func (u *Upstream) newClient(addrs []string, db int) redis.UniversalClient {
	if !u.Topology().Cluster() {
		return redis.NewClient(&redis.Options{
			Addr: u.cfg.Addrs[0], Dialer: u.dialMaster, CredentialsProviderContext: u.Dialer.OwnCredentials, DB: db,
			Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: clientPool,
			DialTimeout: u.RedirectTimeout(), ReadTimeout: u.Dialer.Timeout(),
			ContextTimeoutEnabled: true, DialerRetries: 1,
		})
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, Dialer: u.dialNamed, CredentialsProviderContext: u.Dialer.OwnCredentials,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, MaxRedirects: 8, PoolSize: clientPool,
		DialTimeout: u.RedirectTimeout(), ReadTimeout: u.Dialer.Timeout(),
		ContextTimeoutEnabled: true, DialerRetries: 1,
	})
	c.OnNewNode(func(n *redis.Client) { n.AddHook(slotsHook{u}) })
	return c
}

// reloadLocked makes the clients reload the topology. It does not block.
func (u *Upstream) reloadLocked() {
	for _, c := range u.clients {
		if c, ok := c.(*redis.ClusterClient); ok {
			c.ReloadState(u.Nodes.Context()) // in the background, at most once per 200 ms
		}
	}
}

// clientPool is how many connections a client has to one node.
const clientPool = 64

// Commands returns the upstream's reply to COMMAND as go-redis decodes it, or nil if there is none.
func (u *Upstream) Commands(ctx context.Context) (commands []any) {
	for _, addr := range u.candidates() {
		err := u.Ask(ctx, addr, func(ctx context.Context, c *redis.Client) (err error) {
			commands, err = c.Do(ctx, "COMMAND").Slice()
			return err
		})
		if err == nil {
			return commands
		}
		u.log.Warn("cannot read the command table of redis: using the built-in one", "err", err)
	}
	return nil
}

// dialMaster dials the only master, for go-redis. The connection ends when another master takes its
// place.
func (u *Upstream) dialMaster(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, max(u.RedirectTimeout(), time.Second))
	defer cancel()
	n := u.Topology().Masters()[0]
	conn, err := u.Dialer.OpenOwn(ctx, n.Addr)
	if err != nil {
		return nil, err
	}
	if u.followsSentinels() {
		if err := u.Dialer.IsMaster(ctx, n.Addr); err != nil {
			conn.Close()
			u.Refresh()
			return nil, err
		}
	}
	conn.CloseWith(n.Context())
	return conn, nil
}

func (u *Upstream) dialNamed(ctx context.Context, network, addr string) (net.Conn, error) {
	return u.Dialer.DialOwn(ctx, network, u.withHost(addr))
}

// withHost completes the address of a redirect without a host, which means the host of the node
// that sent it. go-redis does not fill it in, and without it lock scripts would fail as long as a
// slot moves. Nodes usually differ by their port, so Leash uses the known node with that port.
func (u *Upstream) withHost(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "" && host != "?" {
		return addr
	}
	for _, n := range u.Topology().Holders() {
		if _, p, _ := net.SplitHostPort(n.Addr); p == port {
			return n.Addr
		}
	}
	return addr
}
