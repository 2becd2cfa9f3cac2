package proxy

import (
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

		"ACL|DELUSER": {everyMaster(mergeMax), everyNode, "replicas are not changed"}, "ACL|SETUSER": {everyMaster(mergeOK), everyNode, "replicas are not changed"},
		"ACL|LOAD": {everyMaster(mergeOK), everyNode, ""}, "ACL|SAVE": {everyMaster(mergeOK), everyNode, ""},
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
			return s.everywhere(cmd, mergeOK)
		}
		limit, _ = resp.ParseInt(cmd.Args[2]) // Redis reports a wrong number
	}
	return everyMaster(newest(limit, func(entry [][]byte) (float64, bool) {
		for i := 0; i+1 < len(entry); i += 2 {
			if string(value(entry[i])) == "age-seconds" {
				age, ok := decimal(value(entry[i+1]))
				return -age, ok
			}
		}
		return 0, false
	}))(s, c, cmd)
}
