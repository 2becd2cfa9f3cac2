package proxy

import (
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// aclSpecs are the ACL commands. One node answers a command that only reads, because all masters
// should have the same users. A change goes to every master.
func aclSpecs() commandSpecs {
	return commandSpecs{
		"ACL|CAT": {(*session).relayAny, anyNode, ""}, "ACL|DRYRUN": {(*session).relayAny, anyNode, ""},
		"ACL|GENPASS": {(*session).relayAny, anyNode, ""}, "ACL|GETUSER": {(*session).relayAny, anyNode, ""},
		"ACL|LIST": {(*session).relayAny, anyNode, ""}, "ACL|USERS": {(*session).relayAny, anyNode, ""},
		"ACL|WHOAMI": {(*session).relayAny, anyNode, ""},

		"ACL|DELUSER": {everyMaster(merge.Most), everyNode, "replicas are not changed"}, "ACL|SETUSER": {everyMaster(merge.First), everyNode, "replicas are not changed"},
		"ACL|LOAD": {everyMaster(merge.First), everyNode, ""}, "ACL|SAVE": {everyMaster(merge.First), everyNode, ""},
		"ACL|LOG": {(*session).aclLog, everyNode, ""},
	}
}

// aclLogLength is the default number of entries of ACL LOG.
const aclLogLength = 10

// aclLog answers ACL LOG [count | RESET] with the newest entries of all masters.
func (s *session) aclLog(c *command, cmd resp.Command) bool {
	limit := int64(aclLogLength)
	if len(cmd.Args) > 2 {
		if isWord(cmd.Args[2], "RESET") {
			return s.everywhere(cmd, merge.First)
		}
		limit, _ = resp.ParseInt(cmd.Args[2]) // Redis reports a wrong number
	}
	return everyMaster(merge.ACLLog(limit))(s, c, cmd)
}
