package upstream

import (
	"context"
	"errors"
	"strings"

	"leash/proxy/dial"
	"leash/proxy/topology"
)

// errForeign means that a node of the cluster has ended, and its address belongs to another Redis.
var errForeign = errors.New("upstream: the redis at this address does not belong to the cluster")

// isMember implements links.Hooks. A node whose list has none of the known nodes belongs to another
// cluster. A server that refuses the question cannot be told from one that does not.
func (u *Upstream) isMember(ctx context.Context, addr string) (sure bool, err error) {
	ids := u.knownIDs()
	if len(ids) == 0 {
		return false, nil
	}
	var nodes string
	err = u.Ask(ctx, addr, func(c *dial.Conn) (err error) {
		nodes, err = c.Text("CLUSTER", "NODES")
		return err
	})
	switch {
	case isAlone(err) || err == nil && !topology.Knows(nodes, ids):
		return false, errForeign
	case err != nil && (dial.IsReply(err) || dial.IsAuthError(err)):
		return false, nil
	}
	return err == nil, err
}

// isAlone reports whether a reply about the cluster is that of a single Redis.
func isAlone(err error) bool {
	return err != nil && strings.Contains(err.Error(), "cluster support disabled")
}

// knownIDs are the ids of the cluster's nodes, none before they are known.
func (u *Upstream) knownIDs() []string {
	if ids := u.ids.Load(); ids != nil {
		return *ids
	}
	return nil
}
