package proxy

import (
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// aclHandlers are the ACL commands. One node answers a command that only reads, because all masters
// should have the same users. A change goes to every master.
func aclHandlers() handlers {
	return handlers{
		"ACL|DELUSER": everyMaster(merge.Most),
		"ACL|SETUSER": everyMaster(merge.First),
		"ACL|LOAD":    everyMaster(merge.First),
		"ACL|SAVE":    everyMaster(merge.First),
		"ACL|LOG":     (*session).aclLog,
	}
}

// aclLogLength is the default number of entries of ACL LOG.
const aclLogLength = 10

// aclLog answers ACL LOG [count | RESET] with the newest entries of all masters.
func (s *session) aclLog(c *command.Command, cmd resp.Command) bool {
	limit := int64(aclLogLength)
	if len(cmd.Args) > 2 {
		if resp.IsWord(cmd.Args[2], "RESET") {
			return s.router.Everywhere(cmd, merge.First)
		}
		limit, _ = resp.ParseInt(cmd.Args[2]) // Redis reports a wrong number
	}
	return everyMaster(merge.ACLLog(limit))(s, c, cmd)
}
