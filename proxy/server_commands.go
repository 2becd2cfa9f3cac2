package proxy

import (
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// Reasons for refusing commands that are for operators of servers.
const (
	reasonShared   = "other clients use the Redis behind it"
	reasonTopology = "it changes which node is the master; send it to the node itself"
	reasonReplica  = "a replica must connect to its master directly"
	reasonModules  = "Leash reads the list of commands when it starts; change the modules on every node, then restart Leash"
	reasonTests    = "it is for Redis's own tests"
)

// oneNode is the reason for a reply that comes from one node and is not summed over all.
const oneNode = "the answer of one node, about itself"

// serverSpecs are the commands about the server that belong to no other family.
func serverSpecs() commandSpecs {
	return commandSpecs{
		"INFO": {(*session).info, everyNode, "numbers are added up; the sections Clients and Leash describe this Leash"},
		"TIME": {(*session).relayAny, anyNode, ""}, "LOLWUT": {(*session).relayAny, anyNode, ""},
		"ROLE": {(*session).role, anyNode, "shows a master without replicas"},

		"LASTSAVE": {everyMaster(merge.Least), everyNode, "the earliest time"}, "SAVE": {everyMaster(merge.First), everyNode, ""},
		"BGSAVE": {everyMaster(merge.First), everyNode, ""}, "BGREWRITEAOF": {everyMaster(merge.First), everyNode, ""},

		"MEMORY|DOCTOR": {(*session).relayAny, anyNode, oneNode}, "MEMORY|STATS": {(*session).relayAny, anyNode, oneNode},
		"MEMORY|MALLOC-STATS": {(*session).relayAny, anyNode, oneNode}, "MEMORY|PURGE": {everyMaster(merge.First), everyNode, ""},

		"MODULE|LIST": {(*session).relayAny, anyNode, ""}, "MODULE|LOAD": {(*session).refuse, refused, reasonModules},
		"MODULE|LOADEX": {(*session).refuse, refused, reasonModules}, "MODULE|UNLOAD": {(*session).refuse, refused, reasonModules},

		"DEBUG":    {(*session).debug, relayed, "subcommands about a key; those that stop or change a server are refused"},
		"SHUTDOWN": {(*session).refuse, refused, reasonShared},
		"FAILOVER": {(*session).refuse, refused, reasonTopology}, "REPLICAOF": {(*session).refuse, refused, reasonTopology},
		"SLAVEOF": {(*session).refuse, refused, reasonTopology}, "REPLCONF": {(*session).refuse, refused, reasonReplica},
		"SYNC": {(*session).refuse, refused, reasonReplica}, "PSYNC": {(*session).refuse, refused, reasonReplica},
		"PFDEBUG": {(*session).refuse, refused, reasonTests}, "PFSELFTEST": {(*session).refuse, refused, reasonTests},
	}
}

// role answers ROLE like a master without replicas. A client that knew replicas would connect to
// them without Leash.
func (s *session) role(c *command, cmd resp.Command) bool {
	return s.relayMerged(c, cmd, withoutReplicas)
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
func (s *session) debug(c *command, cmd resp.Command) bool {
	switch reason := debugRefusal(cmd.Args); {
	case !s.ready(c, cmd):
		return true
	case reason != "":
		return s.fail(reason)
	case isWord(cmd.Args[1], "HELP"):
		return s.relayAny(c, cmd)
	}
	return s.relayKeys(cmd, int(upstream.Slot(cmd.Args[2])), false)
}

func debugRefusal(args [][]byte) string {
	if len(args) < 2 || isWord(args[1], "HELP") {
		return ""
	}
	for _, name := range debugOfKey {
		if isWord(args[1], name) && len(args) > 2 {
			return ""
		}
	}
	return "ERR 'debug " + string(quoted(args[1], maxQuoted)) + "' is refused by leash: " + reasonShared
}
