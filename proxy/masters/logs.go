package masters

import (
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

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
