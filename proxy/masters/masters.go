// Package masters is the commands that Leash runs on every master of a cluster. It merges the
// masters' replies into one. Most of these commands are about all keys, or about the servers.
package masters

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// Run answers a command c of this family. It checks the user's right to it, or lets Redis do so. It
// returns false when the session ends.
type Run func(r *route.Router, c *command.Command, cmd resp.Command) bool

// Commands are the commands of this family, by upper-case name.
//
// One node answers an ACL command that only reads, because all masters should have the same users.
// A change goes to every master. Each node has its own functions too.
func Commands() map[string]Run {
	return map[string]Run{
		"ACL|DELUSER": Every(merge.Most),
		"ACL|SETUSER": Every(merge.First),
		"ACL|LOAD":    Every(merge.First),
		"ACL|SAVE":    Every(merge.First),
		"ACL|LOG":     aclLog,

		"DBSIZE":    Every(merge.Sum),
		"KEYS":      keys,
		"FLUSHALL":  Every(merge.First),
		"FLUSHDB":   Every(merge.First),
		"RANDOMKEY": randomKey,

		"FUNCTION|LOAD":    Every(merge.First),
		"FUNCTION|DELETE":  Every(merge.First),
		"FUNCTION|FLUSH":   Every(merge.First),
		"FUNCTION|RESTORE": Every(merge.First),
		"SCRIPT|EXISTS":    Every(merge.Least),

		"CONFIG|SET":       configSet,
		"CONFIG|RESETSTAT": Every(merge.First),
		"CONFIG|REWRITE":   Every(merge.First),

		"LATENCY|LATEST":  Every(merge.Latest),
		"LATENCY|HISTORY": Every(merge.History),
		"LATENCY|RESET":   Every(merge.Sum),
		"SLOWLOG|GET":     newest(merge.Slowlog),
		"SLOWLOG|LEN":     Every(merge.Sum),
		"SLOWLOG|RESET":   Every(merge.First),

		"LASTSAVE":     Every(merge.Least),
		"SAVE":         Every(merge.First),
		"BGSAVE":       Every(merge.First),
		"BGREWRITEAOF": Every(merge.First),
		"MEMORY|PURGE": Every(merge.First),

		"ROLE": role,
	}
}

// Every runs a command on every master. m merges the replies into one. A single Redis answers the
// command itself.
func Every(m merge.Func) Run {
	return func(r *route.Router, _ *command.Command, cmd resp.Command) bool {
		if !r.Up.Cluster() {
			return r.RelayAny(cmd)
		}
		return r.Everywhere(cmd, m)
	}
}

// Refusal returns the error for arguments that Leash refuses for a command of this family. It is
// empty if the arguments are allowed.
func Refusal(c *command.Command, args [][]byte) string {
	if c.Name == "config|set" {
		return configRefusal(args)
	}
	return ""
}

// ownParameters are the parameters that clients may not set. They concern a server's address, its
// place in the cluster, or its connections. Those connections are Leash's, and a tighter limit
// would close links that all clients share. A name that ends in "-" is a prefix.
var ownParameters = []string{
	"bind", "bind-source-addr", "port", "tls-port", "unixsocket", "cluster-port", "cluster-config-file",
	"cluster-announce-", "replica-announce-", "slave-announce-",
	"maxclients", "maxmemory-clients", "timeout", "tcp-keepalive", "proto-max-bulk-len", "client-query-buffer-limit",
	"client-output-buffer-limit",
}

// configSet sets parameters on every master. It refuses the whole command if one of them is in
// ownParameters.
func configSet(r *route.Router, c *command.Command, cmd resp.Command) bool {
	switch reason := configRefusal(cmd.Args); {
	case !r.Ready(c, cmd):
		return true
	case reason != "":
		return r.Fail(reason)
	}
	return r.Everywhere(cmd, merge.First)
}

func configRefusal(args [][]byte) string {
	for i := 2; i < len(args); i += 2 {
		name := strings.ToLower(string(command.Quoted(args[i], command.MaxQuoted)))
		if slices.ContainsFunc(ownParameters, func(own string) bool {
			return name == own || strings.HasSuffix(own, "-") && strings.HasPrefix(name, own)
		}) {
			return "ERR CONFIG SET of '" + name +
				"' is refused by leash: it changes the addresses or connections of the servers behind Leash"
		}
	}
	return ""
}

// keys runs KEYS (https://redis.io/docs/latest/commands/keys/) on every master. It uses pinned
// connections, because a reply as large as the database would delay all users of a shared link. It
// is a barrier in both directions. The bytes of the replies count as the session's output until
// they are sent.
func keys(r *route.Router, _ *command.Command, cmd resp.Command) bool {
	masters, ok := r.AllMasters()
	if !ok || len(masters) == 0 {
		return ok && r.Fail(call.ErrorUnserved)
	}
	if !r.Barrier() {
		return false
	}
	r.Out.Flush()
	parts, pins := make([]*call.Part, len(masters)), make([]*route.Pin, len(masters))
	for i := range masters {
		pins[i] = r.Pin()
		parts[i] = call.FixedPart(bytes.Clone(cmd.Raw)).Via(pins[i])
	}
	ok = r.FanOut(parts, masters, len(cmd.Raw), merge.Lists) && r.Barrier()
	for _, p := range pins {
		if !ok {
			p.Abort() // its reply is not needed
		}
		p.Release()
	}
	return ok
}

// listed is how many entries SLOWLOG GET and ACL LOG have by default.
const listed = 10

// newest answers SLOWLOG GET [count], or ACL LOG [count], with the newest entries of all masters.
func newest(merged func(limit int64) merge.Func) Run {
	return func(r *route.Router, c *command.Command, cmd resp.Command) bool {
		limit := int64(listed)
		if len(cmd.Args) > 2 {
			limit, _ = resp.ParseInt(cmd.Args[2]) // Redis reports a wrong number
		}
		return Every(merged(limit))(r, c, cmd)
	}
}

func aclLog(r *route.Router, c *command.Command, cmd resp.Command) bool {
	if len(cmd.Args) > 2 && resp.IsWord(cmd.Args[2], "RESET") {
		return r.Everywhere(cmd, merge.First)
	}
	return newest(merge.ACLLog)(r, c, cmd)
}

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

// role answers ROLE like a master without replicas. A client that knew replicas would connect to
// them without Leash.
func role(r *route.Router, c *command.Command, cmd resp.Command) bool {
	return !r.Ready(c, cmd) || r.RelayRewritten(cmd, withoutReplicas)
}

func withoutReplicas(reply []byte) []byte {
	all, ok := resp.Elements(reply)
	if !ok || len(all) != 3 || string(all[0]) != "$6\r\nmaster\r\n" {
		return reply
	}
	all[2] = []byte(resp.EmptyArray)
	return resp.Array(all)
}
