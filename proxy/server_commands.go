package proxy

import (
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// serverHandlers are the commands about the server that belong to no other family.
func serverHandlers() handlers {
	return handlers{
		"INFO": (*session).info,
		"ROLE": (*session).role,

		"LASTSAVE":     everyMaster(merge.Least),
		"SAVE":         everyMaster(merge.First),
		"BGSAVE":       everyMaster(merge.First),
		"BGREWRITEAOF": everyMaster(merge.First),

		"MEMORY|PURGE": everyMaster(merge.First),

		"DEBUG": (*session).debug,
	}
}

// role answers ROLE like a master without replicas. A client that knew replicas would connect to
// them without Leash.
func (s *session) role(c *command.Command, cmd resp.Command) bool {
	return !s.router.Ready(c, cmd) || s.router.RelayRewritten(cmd, withoutReplicas)
}

func withoutReplicas(reply []byte) []byte {
	all, ok := resp.Elements(reply)
	if !ok || len(all) != 3 || string(all[0]) != "$6\r\nmaster\r\n" {
		return reply
	}
	all[2] = []byte(resp.EmptyArray)
	return resp.Array(all)
}

// debugOfKey are the subcommands of DEBUG that only read one key.
var debugOfKey = [...]string{"OBJECT", "LISTPACK", "ZIPLIST", "QUICKLIST", "SDSLEN", "HTSTATS-KEY"}

// debug relays HELP and the subcommands that are about a key.
func (s *session) debug(c *command.Command, cmd resp.Command) bool {
	switch reason := debugRefusal(cmd.Args); {
	case !s.router.Ready(c, cmd):
		return true
	case reason != "":
		return s.fail(reason)
	case resp.IsWord(cmd.Args[1], "HELP"):
		return s.router.RelayAny(cmd)
	}
	return s.router.RelayKeys(cmd, int(upstream.Slot(cmd.Args[2])), false)
}

// reasonShared is why Leash refuses most of DEBUG.
const reasonShared = "other clients use the Redis behind it"

func debugRefusal(args [][]byte) string {
	if len(args) < 2 || resp.IsWord(args[1], "HELP") {
		return ""
	}
	for _, name := range debugOfKey {
		if resp.IsWord(args[1], name) && len(args) > 2 {
			return ""
		}
	}
	return "ERR 'debug " + string(command.Quoted(args[1], command.MaxQuoted)) + "' is refused by leash: " + reasonShared
}
