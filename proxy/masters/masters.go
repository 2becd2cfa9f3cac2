// Package masters is the commands that Leash runs on every master of a cluster. It merges the
// masters' replies into one. Most of these commands are about all keys, or about the servers.
package masters

import (
	"leash/proxy/command"
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
