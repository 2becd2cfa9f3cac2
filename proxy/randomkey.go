package proxy

import (
	"math/rand/v2"

	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// randomKey runs RANDOMKEY (https://redis.io/docs/latest/commands/randomkey/) on a cluster. It asks
// every master for a key and for its number of keys. It chooses one of the keys. The probability of
// each is its node's share of all keys. If the user may not read the numbers, all nodes with keys
// are equally likely.
func (s *session) randomKey(c *command, cmd resp.Command) bool {
	if !s.server.up.Topology().Cluster() || !c.arityOK(cmd.Args) {
		return s.relayAny(c, cmd)
	}
	masters, ok := s.allMasters(len(cmd.Raw))
	if !ok || len(masters) == 0 {
		return ok && s.fail(msgSlotUnserved)
	}
	var parts []*part
	var to []*upstream.Node
	for _, n := range masters {
		key := &part{slot: anySlot, fixed: true}
		key.Request = resp.AppendCommand(nil, "RANDOMKEY")
		size := &part{slot: anySlot, fixed: true, spare: true}
		size.Request = resp.AppendCommand(nil, "DBSIZE")
		parts, to = append(parts, key, size), append(to, n, n)
	}
	return s.fanOut(parts, to, 0, len(cmd.Raw), mergeRandomKey)
}

// maxNodeKeys limits the number that counts for one node, so that the sum cannot overflow.
const maxNodeKeys = 1 << 40

// mergeRandomKey chooses among pairs of replies: a node's key and its number of keys. A node
// without keys answers nil for the key.
func mergeRandomKey(f *fanout) []byte {
	chosen, total := f.parts[0].whole(), int64(0)
	for i := 0; i < len(f.parts); i += 2 {
		key := f.parts[i].whole()
		if isNil(key) {
			continue
		}
		size, _ := integer(f.parts[i+1].whole())
		size = min(max(size, 1), maxNodeKeys)
		total += size
		if rand.Int64N(total) < size {
			chosen = key
		}
	}
	return chosen
}

// isNil reports whether a reply is the null of either protocol.
func isNil(reply []byte) bool {
	return string(reply) == resp.NilBulk || string(reply) == resp.Null
}
