package upstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/resp"
)

var (
	errNotCluster    = errors.New("--upstream-mode is cluster, but the Redis there has cluster support disabled")
	errNotStandalone = errors.New("--upstream-mode is standalone, but the Redis there is a node of a cluster")
	errIsSentinel    = errors.New("the server there is a sentinel: name its master with --sentinel-master")
	errNoSuchMaster  = errors.New("no such master")
	errNotOneCluster = errors.New("the addresses of --upstream are not nodes of one cluster")
)

func isWrongMode(err error) bool {
	for _, wrong := range []error{
		errNotCluster, errNotStandalone, errIsSentinel, errNotSentinel, errNoSuchMaster, errNotOneCluster,
	} {
		if errors.Is(err, wrong) {
			return true
		}
	}
	return false
}

// probe asks the first node that answers for its mode.
func (u *Upstream) probe(ctx context.Context) (err error) {
	if u.followsSentinels() {
		if err := u.discover(ctx, time.Now()); err != nil {
			return err
		}
	}
	for _, addr := range u.candidates() {
		var info string
		u.Nodes.Server.MaxBulk = links.DefaultMaxBulk
		failed := u.Ask(ctx, addr, func(c *dial.Conn) (err error) {
			config, err := c.List("CONFIG", "GET", "proto-max-bulk-len")
			if len(config) == 2 {
				u.setMaxBulk(config[1])
			}
			if err == nil || dial.IsReply(err) {
				info, err = c.Text("INFO")
			}
			return err
		})
		if failed != nil {
			if dial.IsReply(failed) && u.isSentinel(ctx, addr) {
				return fmt.Errorf("%s: %w", addr, errIsSentinel)
			}
			err = clearerError(err, failed)
			continue
		}
		u.version = resp.InfoField(info, "redis_version")
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
	case len(u.cfg.Addrs) > 1:
		return errNotOneCluster
	default:
		u.cfg.Mode, u.Nodes.Server.Single = "standalone", true
	}
	return nil
}

// isSentinel reports whether the server at addr is a sentinel. It uses the sentinels' credential,
// because a sentinel may refuse the upstream's.
func (u *Upstream) isSentinel(ctx context.Context, addr string) bool {
	var info string
	err := u.Dialer.AskSentinel(ctx, addr, func(c *dial.Conn) (err error) {
		info, err = c.Text("INFO", "server")
		return err
	})
	return err == nil && modeOf(info) == "sentinel"
}

// leastMaxBulk is the smallest proto-max-bulk-len that can be set.
const leastMaxBulk = 1 << 20

func (u *Upstream) setMaxBulk(config any) {
	text, _ := config.(string)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= leastMaxBulk {
		u.Nodes.Server.MaxBulk = n
	}
}

// probeAuth finds out whether Redis requires clients to authenticate.
func (u *Upstream) probeAuth(ctx context.Context, addr string) error {
	conn, err := u.Dialer.Dial(ctx, addr, dial.Lane{}, false)
	if err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	return conn.Close()
}

// modeOf returns the server's mode. Redis names it redis_mode and Valkey server_mode. Some services
// leave both out. Then the line about cluster support decides.
func modeOf(info string) string {
	for _, name := range []string{"redis_mode", "server_mode"} {
		if mode := resp.InfoField(info, name); mode != "" {
			return mode
		}
	}
	if resp.InfoField(info, "cluster_enabled") == "1" {
		return "cluster"
	}
	return ""
}

// setMaxClients reads maxclients from INFO, where it is since Redis 6.2.
func (u *Upstream) setMaxClients(info string) {
	if n, err := strconv.Atoi(resp.InfoField(info, "maxclients")); err == nil && n > 0 {
		u.Nodes.Server.MaxClients = n
	}
}
