package command

import "strings"

// Class is how Leash treats a command. docs/commands.md has a list of each class.
type Class string

// The classes.
const (
	Relayed     Class = "relayed"      // whole, to the node of its keys
	AnyNode     Class = "any node"     // relayed to any one node
	SplitUp     Class = "split"        // by slot; the replies are merged
	EveryMaster Class = "every master" // to each; the replies are merged
	Pinned      Class = "pinned"       // on a connection of the session's own
	Subscriber  Class = "subscriber"   // by the shared subscriber
	Answered    Class = "answered"     // by Leash itself
	Refused     Class = "refused"      // with a reason
	LeashOnly   Class = "leash only"   // Redis does not have it
)

// Classes are all classes. A command's ClassIndex counts from the first of them.
var Classes = [...]Class{
	Relayed, AnyNode, SplitUp, EveryMaster, Pinned, Subscriber, Answered, Refused, LeashOnly,
}

// treatment is how Leash treats some commands. note tells users what the class does not say. A note
// of Refused is the reason.
type treatment struct {
	class Class
	note  string
	names string // upper case, with spaces between them; "CLIENT|ID"
}

// treatments are the commands that need more than being relayed, or less. All other commands are
// relayed by their keys or refused (see ordinary).
var treatments = [...]treatment{
	{Relayed, "", "EVAL EVAL_RO FCALL FCALL_RO SPUBLISH"},
	{
		Relayed, "if the node has lost a script that Leash has seen, Leash loads it again",
		"EVALSHA EVALSHA_RO",
	},
	{Relayed, "pinned when it has BLOCK", "XREAD XREADGROUP"},
	{
		AnyNode, "",
		"ACL|CAT ACL|DRYRUN ACL|GENPASS ACL|GETUSER ACL|LIST ACL|USERS ACL|WHOAMI CONFIG|GET " +
			"FUNCTION|DUMP FUNCTION|LIST FUNCTION|STATS LOLWUT MODULE|LIST TIME",
	},
	{
		AnyNode, "includes the commands of Leash",
		"COMMAND COMMAND|COUNT COMMAND|DOCS COMMAND|GETKEYS COMMAND|GETKEYSANDFLAGS " +
			"COMMAND|INFO COMMAND|LIST",
	},
	{
		AnyNode, "the answer of one node, about itself",
		"LATENCY|DOCTOR LATENCY|GRAPH LATENCY|HISTOGRAM MEMORY|DOCTOR MEMORY|MALLOC-STATS " +
			"MEMORY|STATS",
	},
	{AnyNode, "the reply counts the subscribers of this Leash and of that node", "PUBLISH"},
	{AnyNode, "shows a master without replicas", "ROLE"},
	{AnyNode, "a cluster refuses it", "SWAPDB"},
	{SplitUp, "", "DEL EXISTS MGET MSET TOUCH UNLINK"},
	{
		EveryMaster, "",
		"ACL|LOAD ACL|LOG ACL|SAVE BGREWRITEAOF BGSAVE CONFIG|RESETSTAT CONFIG|REWRITE " +
			"FLUSHALL FLUSHDB FUNCTION|DELETE FUNCTION|FLUSH FUNCTION|LOAD FUNCTION|RESTORE " +
			"LATENCY|HISTORY LATENCY|LATEST LATENCY|RESET MEMORY|PURGE PUBSUB|CHANNELS " +
			"PUBSUB|NUMPAT PUBSUB|NUMSUB PUBSUB|SHARDCHANNELS PUBSUB|SHARDNUMSUB SAVE " +
			"SCRIPT|FLUSH SCRIPT|LOAD SLOWLOG|LEN SLOWLOG|RESET",
	},
	{EveryMaster, "replicas are not changed", "ACL|DELUSER ACL|SETUSER"},
	{
		EveryMaster, "while a slot moves, its keys are on two masters",
		"CLUSTER|COUNTKEYSINSLOT CLUSTER|GETKEYSINSLOT",
	},
	{
		EveryMaster, "replicas are not changed; settings about addresses and connections are refused",
		"CONFIG|SET",
	},
	{EveryMaster, "while slots move, a moving key counts twice or not at all", "DBSIZE"},
	{
		EveryMaster, "sent on a new connection, because the script blocks the shared one",
		"FUNCTION|KILL SCRIPT|KILL",
	},
	{EveryMaster, "numbers are added up; the sections Clients and Leash describe this Leash", "INFO"},
	{EveryMaster, "while slots move, a moving key appears twice or not at all", "KEYS"},
	{EveryMaster, "the earliest time", "LASTSAVE"},
	{EveryMaster, "chooses a master by its share of the keys", "RANDOMKEY"},
	{EveryMaster, "one master after the other; while slots move, a key can appear twice", "SCAN"},
	{EveryMaster, "1 if every master has the script", "SCRIPT|EXISTS"},
	{EveryMaster, "the newest entries of all masters", "SLOWLOG|GET"},
	{
		Pinned, "uses connections that only this client has; REDIRECT names a client of the same Leash",
		"CLIENT|TRACKING",
	},
	{
		Pinned, "on a cluster, all keys of a transaction are in one slot",
		"DISCARD EXEC MULTI UNWATCH WATCH",
	},
	{Pinned, "shows what every master executes; the client addresses are those of Leash", "MONITOR"},
	{Pinned, "asks every node that this client wrote to; the reply is the smallest answer", "WAIT"},
	{
		Pinned, "asks every node that this client wrote to; the reply has the smallest answers",
		"WAITAOF",
	},
	{Subscriber, "", "PUNSUBSCRIBE SUNSUBSCRIBE UNSUBSCRIBE"},
	{Subscriber, "keyspace events arrive from every master", "PSUBSCRIBE"},
	{Subscriber, "follows its slot when the slot moves", "SSUBSCRIBE"},
	{
		Subscriber, "Redis sees one subscription per user and channel, whatever the number of clients",
		"SUBSCRIBE",
	},
	{
		Answered, "",
		"CLIENT|GETNAME CLIENT|GETREDIR CLIENT|ID CLIENT|INFO CLIENT|REPLY CLIENT|SETNAME " +
			"CLIENT|TRACKINGINFO CLUSTER|COUNT-FAILURE-REPORTS CLUSTER|KEYSLOT CLUSTER|LINKS " +
			"CLUSTER|MYID CLUSTER|REPLICAS CLUSTER|SLAVES ECHO PING READONLY READWRITE",
	},
	{Answered, "accepted; Leash follows redirects itself", "ASKING"},
	{Answered, "Redis checks the password on a connection of its own", "AUTH"},
	{Answered, "sent together with the next command", "CLIENT|CACHING"},
	{
		Answered, "only the clients of this Leash",
		"CLIENT|KILL CLIENT|LIST CLIENT|PAUSE CLIENT|UNPAUSE",
	},
	{
		Answered, "the client stays connected when unread replies take too much memory in total",
		"CLIENT|NO-EVICT",
	},
	{Answered, "works also before Redis 7.2", "CLIENT|SETINFO"},
	{Answered, "also ends a wait for a lock, a permit or a latch", "CLIENT|UNBLOCK"},
	{
		Answered, "shows one node that owns every slot",
		"CLUSTER|INFO CLUSTER|NODES CLUSTER|SHARDS CLUSTER|SLOTS",
	},
	{Answered, "changes the protocol and the user of this client", "HELLO"},
	{Answered, "after the replies to earlier commands", "QUIT"},
	{Answered, "also releases the locks of the connection", "RESET"},
	{Answered, "changes the database of this client; a cluster has only database 0", "SELECT"},
	{
		Refused, "a client that follows such pushes replaces its connections, and loses the locks on them; " +
			"--maint-notifications allows it",
		"CLIENT|MAINT_NOTIFICATIONS",
	},
	{Refused, "it would change a connection that other clients share", "CLIENT|NO-TOUCH"},
	{
		Refused, "Leash shows the cluster as one node; send it to the node itself",
		"CLUSTER|ADDSLOTS CLUSTER|ADDSLOTSRANGE CLUSTER|BUMPEPOCH CLUSTER|DELSLOTS " +
			"CLUSTER|DELSLOTSRANGE CLUSTER|FAILOVER CLUSTER|FLUSHSLOTS CLUSTER|FORGET " +
			"CLUSTER|MEET CLUSTER|REPLICATE CLUSTER|RESET CLUSTER|SAVECONFIG " +
			"CLUSTER|SET-CONFIG-EPOCH CLUSTER|SETSLOT",
	},
	{
		Refused, "it changes which node is the master; send it to the node itself",
		"FAILOVER REPLICAOF SLAVEOF",
	},
	{Refused, "its address would be that of a server behind Leash", "MIGRATE"},
	{
		Refused, "Leash reads the list of commands when it starts; change the modules on every node, then " +
			"restart Leash",
		"MODULE|LOAD MODULE|LOADEX MODULE|UNLOAD",
	},
	{Refused, "it is for Redis's own tests", "PFDEBUG PFSELFTEST"},
	{Refused, "a replica must connect to its master directly", "PSYNC REPLCONF SYNC"},
	{Refused, "only the nodes of a cluster use it, among themselves", "RESTORE-ASKING"},
	{Refused, "it would stop a connection that other clients share", "SCRIPT|DEBUG"},
	{Refused, "other clients use the Redis behind it", "DEBUG SHUTDOWN"},
}

// ordinary returns the class of a command that treatments does not name. A command that reads or
// writes keys goes to the node of its first key, and that node checks the others. All other
// commands are refused. Only commands that give one reply and do not change the connection may use
// a shared link. SUNSUBSCRIBE has keys too, but it gives one reply for each.
func ordinary(c *Command) Class {
	switch {
	case c.Blocking && len(c.Keys) > 0:
		return Pinned
	case c.Blocking:
		return Refused
	case c.Data && len(c.Keys) > 0:
		return Relayed
	case strings.HasSuffix(c.Name, "|help"): // it only explains its command
		return AnyNode
	}
	return Refused
}
