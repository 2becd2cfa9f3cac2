package upstream

import (
	"bytes"
	"context"
	"time"

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
// does not count. checkRole blocks for at most askTimeout.
func (l *Link) checkRole() {
	n := l.node
	ctx, cancel := context.WithTimeout(n.ctx, askTimeout)
	defer cancel()
	role, err := l.ask(ctx, resp.AppendCommand(nil, "ROLE"))
	if err != nil || n.up.isMaster(ctx, n.Addr) != nil {
		return
	}
	rest, _, isArray := resp.CutHeader(role, "*")
	switch {
	case isArray && bytes.HasPrefix(rest, []byte("$5\r\nslave\r\n")):
		n.up.log.Info("the address of redis leads to another server", "node", n.Addr)
		n.dropLinks(func(Lane) bool { return true })
		if n.up.onSwitch != nil {
			n.up.onSwitch()
		}
	case !isArray: // the user may not ask for the role
		l.breakConn(errDemoted)
	}
}
