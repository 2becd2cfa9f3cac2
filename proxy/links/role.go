package links

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
	if !n.nodes.Server.Single || l.lane.Replica || !bytes.HasPrefix(reply, []byte("-READONLY ")) {
		return
	}
	l.refusesWrites.Store(true)
	if l.pinned || !n.checksRole.CompareAndSwap(false, true) { // a pinned link may be in a transaction
		return
	}
	n.nodes.Go("check of a role", func(context.Context) {
		defer n.checksRole.Store(false)
		l.checkRole()
		Pause(n.ctx, recheckDemotion)
	})
}

// checkRole ends the connections to the link's node if their server is a replica and the node's
// address leads to a master now. A client's script can return READONLY itself, so the error alone
// does not count. checkRole blocks for at most dial.AskTimeout.
func (l *Link) checkRole() {
	n := l.node
	ctx, cancel := context.WithTimeout(n.ctx, dial.AskTimeout)
	defer cancel()
	role, err := l.ask(ctx, resp.AppendCommand(nil, "ROLE"), 1)
	if err != nil || n.nodes.Dialer.IsMaster(ctx, n.Addr) != nil {
		return
	}
	rest, _, isArray := resp.CutHeader(role, "*")
	switch {
	case isArray && bytes.HasPrefix(rest, []byte("$5\r\nslave\r\n")):
		n.nodes.log.Info("the address of redis leads to another server", "node", n.Addr)
		n.nodes.hooks.Demoted(n)
	case !isArray: // the user may not ask for the role
		l.breakConn(dial.ErrDemoted)
	}
}
