package masters

import (
	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/slots"
)

// debugOfKey are the subcommands of DEBUG that only read one key.
var debugOfKey = [...]string{"OBJECT", "LISTPACK", "ZIPLIST", "QUICKLIST", "SDSLEN", "HTSTATS-KEY"}

// debug relays HELP and the subcommands that are about a key.
func debug(r *route.Router, c *command.Command, cmd resp.Command) bool {
	switch reason := debugRefusal(cmd.Args); {
	case !r.Ready(c, cmd):
		return true
	case reason != "":
		return r.Fail(reason)
	case resp.IsWord(cmd.Args[1], "HELP"):
		return r.RelayAny(cmd)
	}
	return r.RelayKeys(cmd, slots.Of(cmd.Args[2]), false)
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
