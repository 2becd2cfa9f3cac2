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

// isMember implements links.Hooks. A server whose answer names none of the known nodes belongs to
// another cluster. If the server refuses to answer, nobody knows.
func (u *Upstream) isMember(ctx context.Context, addr string) (sure bool, err error) {
	if len(u.knownIDs()) == 0 {
		return false, nil
	}
	l, err := u.layoutAt(ctx, addr)
	switch {
	case u.isForeign(l, err):
		return false, errForeign
	case err != nil && (dial.IsReply(err) || dial.IsAuthError(err)):
		return false, nil
	}
	return err == nil, err
}

// isForeign reports whether what layoutAt has returned is from a Redis outside the cluster.
func (u *Upstream) isForeign(l topology.Layout, err error) bool {
	if err != nil {
		return strings.Contains(err.Error(), "cluster support disabled") // a single Redis
	}
	return !l.Knows(u.knownIDs())
}

// knownIDs are the ids of the cluster's nodes, none before they are known.
func (u *Upstream) knownIDs() []string {
	if ids := u.ids.Load(); ids != nil {
		return *ids
	}
	return nil
}
