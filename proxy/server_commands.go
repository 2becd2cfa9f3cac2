package proxy

import (
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// Reasons for refusing what is for those who run the servers.
const (
	reasonShared   = "others use the Redis behind it"
	reasonTopology = "it changes who serves whom; say it to the node that is meant"
	reasonReplica  = "a replica connects to its master itself"
	reasonModules  = "Leash learns the commands there are when it starts; load modules on every node, then start it again"
	reasonTests    = "for Redis's own tests"
)

// oneNode says that what a node tells of itself is not added up.
const oneNode = "what one node says of itself"

// serverTreatments are the commands about the server that have no family of
// their own.
func serverTreatments() treatments {
	return treatments{
		"INFO": {(*session).info, everyNode, "added up; what describes clients and `# Leash` is Leash's own"},
		"TIME": {(*session).relayAny, anyNode, ""}, "LOLWUT": {(*session).relayAny, anyNode, ""},
		"ROLE": {(*session).role, anyNode, "a master without replicas, for none can be reached through Leash"},

		"LASTSAVE": {everyMaster(mergeLeast), everyNode, "the earliest"}, "SAVE": {everyMaster(mergeOK), everyNode, ""},
		"BGSAVE": {everyMaster(mergeOK), everyNode, ""}, "BGREWRITEAOF": {everyMaster(mergeOK), everyNode, ""},

		"MEMORY|DOCTOR": {(*session).relayAny, anyNode, oneNode}, "MEMORY|STATS": {(*session).relayAny, anyNode, oneNode},
		"MEMORY|MALLOC-STATS": {(*session).relayAny, anyNode, oneNode}, "MEMORY|PURGE": {everyMaster(mergeOK), everyNode, ""},

		"MODULE|LIST": {(*session).relayAny, anyNode, ""}, "MODULE|LOAD": {(*session).refuse, refused, reasonModules},
		"MODULE|LOADEX": {(*session).refuse, refused, reasonModules}, "MODULE|UNLOAD": {(*session).refuse, refused, reasonModules},

		"DEBUG":    {(*session).debug, relayed, "what is about a key; what stops or changes a server is refused"},
		"SHUTDOWN": {(*session).refuse, refused, reasonShared},
		"FAILOVER": {(*session).refuse, refused, reasonTopology}, "REPLICAOF": {(*session).refuse, refused, reasonTopology},
		"SLAVEOF": {(*session).refuse, refused, reasonTopology}, "REPLCONF": {(*session).refuse, refused, reasonReplica},
		"SYNC": {(*session).refuse, refused, reasonReplica}, "PSYNC": {(*session).refuse, refused, reasonReplica},
		"PFDEBUG": {(*session).refuse, refused, reasonTests}, "PFSELFTEST": {(*session).refuse, refused, reasonTests},
	}
}

// mergeLeast is for commands of which the least answer holds for all.
func mergeLeast(f *fanout) []byte {
	var least int64
	for i, p := range f.parts {
		n, ok := integer(p.whole())
		if !ok {
			return nil
		}
		if i == 0 || n < least {
			least = n
		}
	}
	return resp.AppendInt(nil, least)
}

// role answers ROLE as a master without replicas would: a client that looks
// for some would go past Leash.
func (s *session) role(c *command, cmd resp.Command) bool {
	return s.relayMerged(c, cmd, withoutReplicas)
}

func withoutReplicas(reply []byte) []byte {
	all, ok := elements(reply)
	if !ok || len(all) != 3 || string(all[0]) != "$6\r\nmaster\r\n" {
		return reply
	}
	all[2] = []byte(resp.EmptyArray)
	return joined(all)
}

// debugOfKey are the subcommands of DEBUG that look at the key behind them and
// at nothing else.
var debugOfKey = [...]string{"OBJECT", "LISTPACK", "ZIPLIST", "QUICKLIST", "SDSLEN", "HTSTATS-KEY"}

// debug relays the subcommands that are about a key, and HELP.
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
