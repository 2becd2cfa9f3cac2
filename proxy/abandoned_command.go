package proxy

import (
	"bytes"
	"context"
	"time"

	"leash/lockcmd"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// abandonedTimeout is how long a session that is over waits for Redis to end the
// blocking command that it has left.
const abandonedTimeout = 2 * time.Second

// awaitAbandoned makes certain that Redis has ended a blocking command whose client
// is gone, and whose connection own was: what it did it has done then, so that
// the client's locks need not be left to run out (R16). before is when the
// session had last lost a call until then. It waits for abandonedTimeout at the most.
func (s *session) awaitAbandoned(own *pin, before time.Time) {
	carrier := s.carrier.Load()
	if carrier == nil || carrier.Holds() == 0 || s.isCut() || s.ending() != lockcmd.Release {
		return
	}
	n, id := own.connectionID()
	if n == nil || !s.connectionGone(n, id) {
		return
	}
	s.mu.Lock()
	s.lostAt = before
	s.mu.Unlock()
}

// connectionGone waits until a node has no connection with that id (CLIENT LIST ID,
// https://redis.io/docs/latest/commands/client-list/). It reports false when
// that is not known in time.
func (s *session) connectionGone(n *upstream.Node, id int64) bool {
	ctx, cancel := context.WithTimeout(s.ctx, abandonedTimeout)
	defer cancel()
	link := n.Link(s.server.up.ServiceLane())
	question := resp.AppendCommand(nil, []byte("CLIENT"), []byte("LIST"), []byte("ID"), resp.AppendDecimal(nil, id))
	line := append(resp.AppendDecimal([]byte("id="), id), ' ')
	for again := time.Millisecond; ; again *= 2 {
		reply, err := link.Ask(ctx, question)
		switch {
		case err != nil, len(reply) == 0, reply[0] != '$': // Redis before 6.2, or no right
			return false
		case !bytes.Contains(reply, line):
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(again):
		}
	}
}
