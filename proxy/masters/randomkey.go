package masters

import (
	"math/rand/v2"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// randomKey runs RANDOMKEY (https://redis.io/docs/latest/commands/randomkey/) on a cluster. It asks
// every master for a key and for its number of keys. It chooses one of the keys. The probability of
// each is its node's share of all keys. If the user may not read the numbers, all nodes with keys
// are equally likely.
func randomKey(r *route.Router, c *command.Command, cmd resp.Command) bool {
	if !r.Up.Cluster() || !c.ArityOK(cmd.Args) {
		return r.RelayAny(cmd)
	}
	masters, ok := r.AllMasters()
	if !ok || len(masters) == 0 {
		return ok && r.Fail(call.ErrorUnserved)
	}
	var parts []*call.Part
	var to []*links.Node
	for _, n := range masters {
		key := call.FixedPart(resp.AppendCommand(nil, "RANDOMKEY"))
		size := call.SparePart(resp.AppendCommand(nil, "DBSIZE"))
		parts, to = append(parts, key, size), append(to, n, n)
	}
	return r.FanOut(parts, to, len(cmd.Raw), merge.RandomKey(rand.Int64N))
}
