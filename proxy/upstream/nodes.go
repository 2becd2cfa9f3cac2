package upstream

import (
	"cmp"
	"context"
	"slices"
	"time"

	"leash/proxy/links"
	"leash/proxy/slots"
	"leash/proxy/topology"
)

// AnyNode returns the masters in turn, and prefers those that answer. It is nil when no master is
// known.
func (u *Upstream) AnyNode() *links.Node {
	masters := u.Topology().Masters()
	for range masters {
		n := masters[u.turn.Add(1)%uint32(len(masters))]
		if !n.Unresponsive() {
			return n
		}
	}
	if len(masters) > 0 {
		return masters[0]
	}
	return nil
}

// OtherNode returns the first master that answers and is not n, or n if there is no other.
func (u *Upstream) OtherNode(n *links.Node) *links.Node {
	for _, other := range u.Topology().Masters() {
		if other != n && !other.Unresponsive() {
			return other
		}
	}
	return n
}

// askNextAfter is how long a node may take to answer before the next one is asked.
const askNextAfter = time.Second

// FirstAnswer asks the masters, one after the other, until ask returns no error. It begins with
// first, or with AnyNode if first is nil, and asks silent nodes last. Each has askNextAfter to
// answer, and the last one the rest of the time. An error that Redis replies with is an answer, so
// ask must return no error for it. ask must return when its context is done. The error is the last
// one, or links.ErrUnreachable if no master is known. FirstAnswer blocks until ctx is done at most.
func (u *Upstream) FirstAnswer(ctx context.Context, first *links.Node,
	ask func(context.Context, *links.Node) ([]byte, error)) (answer []byte, err error) {
	if first == nil {
		first = u.AnyNode()
	}
	err = links.ErrUnreachable
	nodes := u.inTurn(first)
	for i, n := range nodes {
		asking, cancel := ctx, context.CancelFunc(func() {})
		if i < len(nodes)-1 {
			asking, cancel = context.WithTimeout(ctx, askNextAfter)
		}
		answer, err = ask(asking, n)
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return answer, err
}

func (u *Upstream) inTurn(first *links.Node) []*links.Node {
	nodes := slices.Clone(u.Topology().Masters())
	if i := slices.Index(nodes, first); i > 0 {
		nodes = slices.Concat(nodes[i:], nodes[:i])
	}
	slices.SortStableFunc(nodes, func(a, b *links.Node) int { return cmp.Compare(rank(a), rank(b)) })
	return nodes
}

// rank is 1 for a silent node, and 0 for others.
func rank(n *links.Node) int {
	if n.Unresponsive() {
		return 1
	}
	return 0
}

// Topology returns the newest snapshot.
func (u *Upstream) Topology() *topology.Snapshot { return u.topology.Load() }

// Cluster reports whether the newest topology is one of a Redis Cluster.
func (u *Upstream) Cluster() bool { return u.Topology().Cluster() }

// NodeOf is the node that serves a slot now, or nil. slots.Any counts as slot 0.
func (u *Upstream) NodeOf(slot slots.Slot) *links.Node { return u.Topology().Node(max(slot, 0)) }

// NodeAddr is the address of the node that serves a slot now, or "" if there is none.
func (u *Upstream) NodeAddr(slot slots.Slot) string {
	if n := u.NodeOf(slot); n != nil {
		return n.Addr
	}
	return ""
}

// Owners gives the index of the master that serves each slot now, or -1 if there is none. It is nil
// for a single Redis.
func (u *Upstream) Owners() []int {
	t := u.Topology()
	if !t.Cluster() {
		return nil
	}
	owners := make([]int, slots.Count)
	for slot := range owners {
		owners[slot] = t.Owner(slots.Slot(slot))
	}
	return owners
}

// Moved records that n owns slot, as a MOVED reply reported.
func (u *Upstream) Moved(slot slots.Slot, n *links.Node) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if t := u.Topology(); t.Cluster() && slot != slots.Any && n != nil && t.Node(slot) != n {
		u.topology.Store(t.With(slot, n))
	}
}

// Target returns the node that a redirect names. An empty host means the host of the node that sent
// the redirect. Target returns nil if the text is not an address. It also returns nil if the
// redirect is not trusted and the cluster has not named the node.
func (u *Upstream) Target(addr string, from *links.Node, trusted bool) *links.Node {
	addr, ok := topology.Addr(addr, from.Addr)
	if !ok {
		return nil
	}
	u.mu.Lock()
	known := u.Nodes.Known(addr) != nil || slices.Contains(u.peers, addr)
	u.mu.Unlock()
	if !known && !trusted {
		return nil
	}
	n := u.Nodes.Node(addr)
	n.Use()
	return n
}

// Pauses between two attempts at an AUTH that no node answers. Many clients may log in at once.
const (
	minAuthPause = 50 * time.Millisecond
	maxAuthPause = 400 * time.Millisecond
)

// Authenticate tries a credential on a new connection and returns Redis's reply. On a link, the
// answer could be confused with those of other sessions. If a node does not answer, Authenticate
// tries another one. If none answers, it tries again until the redirect time-out is over, unless
// all have been away for seconds. If Redis accepts the credential, later dials of the user's lanes
// use it. It blocks for at most the upstream time-out.
func (u *Upstream) Authenticate(ctx context.Context, command []byte, user string, password []byte) (reply []byte,
	ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, u.Dialer.Timeout())
	defer cancel()
	began := time.Now()
	for pause := minAuthPause; ; pause *= 2 {
		reply, err = u.FirstAnswer(ctx, nil, func(ctx context.Context, n *links.Node) ([]byte, error) {
			return n.Try(ctx, command, user, password)
		})
		over := time.Since(began) >= u.RedirectTimeout() || ctx.Err() != nil
		if n := u.AnyNode(); err == nil || over || n == nil || n.Unresponsive() {
			break
		}
		u.Refresh()
		links.Pause(ctx, min(pause, maxAuthPause))
	}
	if err != nil {
		return nil, false, err
	}
	return reply, reply[0] == '+', nil
}
