package proxy

import (
	"bytes"
	"context"
	"time"

	"leash/lockcmd"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// abandonedTimeout bounds how long a session that has ended waits until Redis has ended its
// blocking command.
const abandonedTimeout = 2 * time.Second

// awaitAbandoned waits until Redis has ended a blocking command whose client is gone. own is the
// pinned connection of that command. When Redis has closed that connection, the command can have no
// later effect. Then the client's locks need not expire (R16). So awaitAbandoned sets the time of
// the last loss back to before, the value from before the command. It waits at most
// abandonedTimeout.
func (s *session) awaitAbandoned(own *route.Pin, before time.Time) {
	carrier := s.carrier()
	if carrier == nil || carrier.Holds() == 0 || s.end.IsCut() || s.endOfLocks() != lockcmd.Release {
		return
	}
	n, id := own.ConnectionID()
	if n == nil || !s.connectionGone(n, id) {
		return
	}
	s.calls.Lost(before)
}

// connectionGone waits until a node has no connection with that id (CLIENT LIST ID,
// https://redis.io/docs/latest/commands/client-list/). It returns false if it cannot tell within
// abandonedTimeout.
func (s *session) connectionGone(n *links.Node, id int64) bool {
	ctx, cancel := context.WithTimeout(s.ctx, abandonedTimeout)
	defer cancel()
	link := n.Link(s.server.up.ServiceLane())
	request := resp.AppendCommand(nil, []byte("CLIENT"), []byte("LIST"), []byte("ID"), resp.AppendDecimal(nil, id))
	line := append(resp.AppendDecimal([]byte("id="), id), ' ')
	for pause := time.Millisecond; ; pause *= 2 {
		reply, err := link.Ask(ctx, request)
		switch {
		case err != nil, len(reply) == 0, reply[0] != '$': // Redis is older than 6.2, or the right is missing
			return false
		case !bytes.Contains(reply, line):
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}
