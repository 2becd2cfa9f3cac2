package masters

import (
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// aclLogLength is the default number of entries of ACL LOG.
const aclLogLength = 10

// aclLog answers ACL LOG [count | RESET] with the newest entries of all masters.
func aclLog(r *route.Router, c *command.Command, cmd resp.Command) bool {
	limit := int64(aclLogLength)
	if len(cmd.Args) > 2 {
		if resp.IsWord(cmd.Args[2], "RESET") {
			return r.Everywhere(cmd, merge.First)
		}
		limit, _ = resp.ParseInt(cmd.Args[2]) // Redis reports a wrong number
	}
	return Every(merge.ACLLog(limit))(r, c, cmd)
}
