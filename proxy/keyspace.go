package proxy

import (
	"bytes"
	"time"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// keyspaceHandlers are the commands about many keys or all keys.
func keyspaceHandlers() handlers {
	return handlers{
		"DBSIZE":    everyMaster(merge.Sum),
		"KEYS":      (*session).allKeys,
		"FLUSHALL":  everyMaster(merge.First),
		"FLUSHDB":   everyMaster(merge.First),
		"RANDOMKEY": (*session).randomKey,
		"SCAN":      (*session).scan,
	}
}

// everyMaster is the handler of a command about all keys or all nodes. m merges the masters'
// replies into one. A single Redis answers the command itself.
func everyMaster(m merge.Func) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool {
		if !s.server.up.Topology().Cluster() {
			return s.relayAny(c, cmd)
		}
		return s.everywhere(cmd, m)
	}
}

// everywhere sends a command to every master and merges the replies. If one master fails, the reply
// is its error.
func (s *session) everywhere(cmd resp.Command, m merge.Func) bool {
	return s.toEvery(cmd, func([]*call.Part) merge.Func { return m })
}

// toEvery is everywhere for a merge that uses the parts.
func (s *session) toEvery(cmd resp.Command, m func([]*call.Part) merge.Func) bool {
	masters, ok := s.allMasters(len(cmd.Raw))
	if !ok || len(masters) == 0 {
		return ok && s.fail(call.ErrorUnserved)
	}
	parts := make([]*call.Part, len(masters))
	for i := range masters {
		parts[i] = call.FixedPart(bytes.Clone(cmd.Raw))
	}
	return s.fanOut(parts, masters, len(cmd.Raw), m(parts))
}

// maxAge is how old the topology may be for a command about all nodes.
const maxAge = time.Second

// allMasters returns the masters of a topology that is no older than maxAge, because a new node may
// have keys too. It waits until a request of size bytes may be sent to each. It returns false when
// the session ends.
func (s *session) allMasters(size int) ([]*upstream.Node, bool) {
	s.server.up.RefreshTopology(s.ctx, maxAge)
	if !s.adoptTopology() || !s.calls.Admit(size) {
		return nil, false
	}
	masters := s.topology.Holders()
	for _, n := range masters {
		if !s.awaitRoom(n) {
			return nil, false
		}
	}
	return masters, true
}
