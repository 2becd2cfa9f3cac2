package upstream

import (
	"bytes"
	"context"
	"time"

	"leash/proxy/dial"
	"leash/proxy/resp"
)

// recheckDemotion is how long Leash waits before it looks into the next refused write.
const recheckDemotion = time.Second

// noteError looks at an error of Redis, and returns at once. The address of a single Redis may lead
// to another server after a failover, as the names of managed services do. The old server keeps its
// connections, and refuses their writes as long as they last.
func (l *Link) noteError(reply []byte) {
	n := l.node
	if n.up.cfg.Mode != "standalone" || l.lane.Replica || !bytes.HasPrefix(reply, []byte("-READONLY ")) {
		return
	}
	l.refusesWrites.Store(true)
	if l.pinned || !n.checksRole.CompareAndSwap(false, true) { // a pinned link may be in a transaction
		return
	}
	n.up.start("check of a role", func() {
		defer n.checksRole.Store(false)
		l.checkRole()
		pause(n.ctx, recheckDemotion)
	})
}

// checkRole ends the connections to the link's node if their server is a replica and the node's
// address leads to a master now. A client's script can return READONLY itself, so the error alone
// does not count. checkRole blocks for at most dial.AskTimeout.
func (l *Link) checkRole() {
	n := l.node
	ctx, cancel := context.WithTimeout(n.ctx, dial.AskTimeout)
	defer cancel()
	role, err := l.ask(ctx, resp.AppendCommand(nil, "ROLE"))
	if err != nil || n.up.IsMaster(ctx, n.Addr) != nil {
		return
	}
	rest, _, isArray := resp.CutHeader(role, "*")
	switch {
	case isArray && bytes.HasPrefix(rest, []byte("$5\r\nslave\r\n")):
		n.up.log.Info("the address of redis leads to another server", "node", n.Addr)
		n.up.replace(n)
	case !isArray: // the user may not ask for the role
		l.breakConn(dial.ErrDemoted)
	}
}

// replace puts a new Node in the place of n, the only master. All connections to n end: links,
// pinned ones, and those of go-redis and of lock scripts.
func (u *Upstream) replace(n *Node) {
	u.mu.Lock()
	if u.nodes[n.Addr] == n {
		delete(u.nodes, n.Addr)
	}
	u.mu.Unlock()
	u.adoptSingle(n.Addr, nil)
	u.close(n)
	u.Refresh() // finds the replicas
	if u.onSwitch != nil {
		u.onSwitch()
	}
}
