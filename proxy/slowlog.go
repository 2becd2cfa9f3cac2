package proxy

import (
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// slowlogSpecs are the commands for the logs of slow commands and events.
func slowlogSpecs() commandSpecs {
	return commandSpecs{
		"SLOWLOG|GET": {(*session).slowlogGet, everyNode, "the newest entries of all masters"}, "SLOWLOG|LEN": {everyMaster(merge.Sum), everyNode, ""},
		"SLOWLOG|RESET": {everyMaster(merge.First), everyNode, ""},

		"LATENCY|LATEST": {everyMaster(merge.Latest), everyNode, ""}, "LATENCY|HISTORY": {everyMaster(merge.History), everyNode, ""},
		"LATENCY|RESET": {everyMaster(merge.Sum), everyNode, ""}, "LATENCY|DOCTOR": {(*session).relayAny, anyNode, oneNode},
		"LATENCY|GRAPH": {(*session).relayAny, anyNode, oneNode}, "LATENCY|HISTOGRAM": {(*session).relayAny, anyNode, oneNode},
	}
}

// slowlogLength is the default number of entries of SLOWLOG GET.
const slowlogLength = 10

// slowlogGet answers SLOWLOG GET [count] with the newest entries of all masters. Each master
// numbers its entries itself.
func (s *session) slowlogGet(c *command, cmd resp.Command) bool {
	limit := int64(slowlogLength)
	if len(cmd.Args) > 2 {
		limit, _ = resp.ParseInt(cmd.Args[2]) // Redis reports what is wrong
	}
	return everyMaster(merge.Slowlog(limit))(s, c, cmd)
}
