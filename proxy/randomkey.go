package proxy

import (
	"math/rand/v2"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// randomKey runs RANDOMKEY (https://redis.io/docs/latest/commands/randomkey/) on a cluster. It asks
// every master for a key and for its number of keys. It chooses one of the keys. The probability of
// each is its node's share of all keys. If the user may not read the numbers, all nodes with keys
// are equally likely.
func (s *session) randomKey(c *command.Command, cmd resp.Command) bool {
	if !s.server.up.Topology().Cluster() || !c.ArityOK(cmd.Args) {
		return s.router.RelayAny(cmd)
	}
	masters, ok := s.router.AllMasters(len(cmd.Raw))
	if !ok || len(masters) == 0 {
		return ok && s.fail(call.ErrorUnserved)
	}
	var parts []*call.Part
	var to []*upstream.Node
	for _, n := range masters {
		key := call.FixedPart(resp.AppendCommand(nil, "RANDOMKEY"))
		size := call.SparePart(resp.AppendCommand(nil, "DBSIZE"))
		parts, to = append(parts, key, size), append(to, n, n)
	}
	return s.router.FanOut(parts, to, len(cmd.Raw), merge.RandomKey(rand.Int64N))
}
