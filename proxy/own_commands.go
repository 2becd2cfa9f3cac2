package proxy

import (
	"slices"

	"leash/proxy/resp"
)

// ownCommand is a command that only Leash has. COMMAND, LOCK.HELP, rights, pauses and RESP3 use
// this description.
type ownCommand struct {
	name    string // lower case
	arity   int    // number of arguments, with the name; negative: at least that many
	keys    keyPositions
	use     *keyUse
	blocks  bool // may wait
	asMap   bool // its reply is a map
	summary string

	arguments []argument
}

// keyPositions says which arguments of a command are keys.
type keyPositions int

const (
	noKey    keyPositions = iota
	firstKey              // the first argument is the only key
	numKeys               // the first argument is the number of keys
)

// keyUse is how a command uses its keys.
type keyUse struct {
	flags, categories, keyFlags []string
	reads                       bool // changes nothing, so a pause of writes does not hold it back
	// right is the Redis command, with the arguments after its key, that the user must be allowed
	// to run with each key (rule R8). It is empty if no right is needed.
	right []string
}

// Uses. Locks are hashes, permits and counters strings.
var (
	takesHash = &keyUse{
		flags: []string{"write", "denyoom", "noscript"}, categories: []string{"@write", "@slow"},
		keyFlags: []string{"RW", "access", "update"}, right: []string{"HSET", "f", "v"},
	}
	endsHash = &keyUse{
		flags: []string{"write", "noscript"}, categories: []string{"@write", "@slow"},
		keyFlags: []string{"RW", "access", "delete"}, right: []string{"HSET", "f", "v"},
	}
	deletesHash = &keyUse{
		flags: []string{"write", "noscript"}, categories: []string{"@write", "@slow"},
		keyFlags: []string{"RW", "access", "delete"}, right: []string{"DEL"},
	}
	readsHash = &keyUse{
		flags: []string{"readonly", "noscript"}, categories: []string{"@read", "@slow"},
		keyFlags: []string{"RO", "access"}, reads: true, right: []string{"HGETALL"},
	}
	takesCount = &keyUse{
		flags: []string{"write", "denyoom", "noscript"}, categories: []string{"@write", "@slow"},
		keyFlags: []string{"RW", "access", "update"}, right: []string{"SET", "v"},
	}
	givesCount = &keyUse{
		flags: []string{"write", "noscript"}, categories: []string{"@write", "@slow"},
		keyFlags: []string{"RW", "access", "update"}, right: []string{"SET", "v"},
	}
	readsCount = &keyUse{
		flags: []string{"readonly", "noscript"}, categories: []string{"@read", "@slow"},
		keyFlags: []string{"RO", "access"}, reads: true, right: []string{"GET"},
	}
	// LOCK.LIST reads the keys with SCAN.
	readsKeys = &keyUse{
		flags: []string{"readonly", "noscript"}, categories: []string{"@read", "@slow"},
		reads: true,
	}
	fromMemory = &keyUse{
		flags: []string{"readonly", "noscript", "fast"}, categories: []string{"@read", "@fast"},
		keyFlags: []string{"RO", "access"}, reads: true,
	}
)

// ownCommands has all commands of Leash, in the order of LOCK.HELP.
var ownCommands = []ownCommand{
	{
		name: "lock.acquire", arity: -2, keys: firstKey, use: takesHash, blocks: true,
		summary: "Takes a lock, and without LEASE keeps it while the connection lives",
		arguments: []argument{
			keyArg, blockArg, leaseArg, ownerArg,
			optional(oneOf("", word("READ"), word("WRITE"), word("FAIR"))), maxHoldArg, idleArg, replicasArg,
			onLossArg, onCloseArg,
		},
	},
	{
		name: "lock.release", arity: -2, keys: firstKey, use: endsHash,
		summary: "Releases a lock",
		arguments: []argument{
			keyArg, modeArg,
			optional(oneOf("", arg("TOKEN", "token"), together(arg("OWNER", "id"), requestArg))),
			optional(word("ALL")),
		},
	},
	{
		name: "lock.macquire", arity: -3, keys: numKeys, use: takesHash, blocks: true,
		summary: "Takes several locks, all of them or QUORUM, or none",
		arguments: []argument{
			arg("", "numkeys"), keysArg, blockArg, leaseArg, ownerArg, maxHoldArg, idleArg, replicasArg,
			onLossArg, onCloseArg, optional(arg("QUORUM", "count")),
		},
	},
	{
		name: "lock.mrelease", arity: -3, keys: numKeys, use: endsHash,
		summary: "Releases several locks",
		arguments: []argument{
			arg("", "numkeys"), keysArg,
			optional(oneOf("", repeated(arg("TOKENS", "token")), arg("OWNER", "id"))),
		},
	},
	{
		name: "lock.attach", arity: -6, keys: firstKey, use: takesHash,
		summary:   "Carries a hold of another connection on from this one",
		arguments: []argument{keyArg, arg("OWNER", "id"), arg("TOKEN", "token"), modeArg},
	},
	{
		name: "lock.extend", arity: -3, keys: firstKey, use: takesHash,
		summary:   "Sets for how long a lock with LEASE still lasts",
		arguments: []argument{keyArg, arg("", "milliseconds"), whoseArg},
	},
	{
		name: "lock.ttl", arity: -2, keys: firstKey, use: fromMemory,
		summary:   "Returns for how many ms a lock is certainly held",
		arguments: []argument{keyArg, whoseArg},
	},
	{
		name: "lock.awaitloss", arity: 6, keys: firstKey, use: readsHash, blocks: true,
		summary:   "Waits until a hold is lost, and returns why",
		arguments: []argument{keyArg, arg("TOKEN", "token"), arg("BLOCK", "milliseconds")},
	},
	{
		name: "lock.notify", arity: 2, use: fromMemory,
		summary:   "Tells by pushes of RESP3 when a lock of this connection is lost or wanted",
		arguments: []argument{oneOf("", word("ON"), word("OFF"))},
	},
	{
		name: "lock.break", arity: 2, keys: firstKey, use: deletesHash,
		summary:   "Ends a lock against its holder's will",
		arguments: []argument{keyArg},
	},
	{
		name: "lock.check", arity: 4, keys: firstKey, use: readsHash,
		summary:   "Returns whether a token is that of a present hold",
		arguments: []argument{keyArg, arg("TOKEN", "token")},
	},
	{
		name: "lock.info", arity: 2, keys: firstKey, use: readsHash, asMap: true,
		summary:   "Returns who holds a lock",
		arguments: []argument{keyArg},
	},
	{
		name: "sem.init", arity: 3, keys: firstKey, use: takesCount,
		summary:   "Sets the total of a semaphore that has none",
		arguments: []argument{keyArg, arg("", "permits")},
	},
	{
		name: "sem.resize", arity: 3, keys: firstKey, use: takesCount,
		summary:   "Changes the total of a semaphore",
		arguments: []argument{keyArg, arg("", "permits")},
	},
	{
		name: "sem.acquire", arity: -2, keys: firstKey, use: takesCount, blocks: true,
		summary: "Takes permits of a semaphore that are renewed while the connection lives",
		arguments: []argument{
			keyArg, optional(arg("COUNT", "count")), blockArg, leaseArg, requestArg,
		},
	},
	{
		name: "sem.release", arity: -2, keys: firstKey, use: givesCount,
		summary:   "Gives permits of a semaphore back",
		arguments: []argument{keyArg, optional(repeated(arg("", "permit")))},
	},
	{
		name: "sem.info", arity: 2, keys: firstKey, use: readsCount, asMap: true,
		summary:   "Returns how many permits there are, and where",
		arguments: []argument{keyArg},
	},
	{
		name: "sem.take", arity: -2, keys: firstKey, use: takesCount, blocks: true,
		summary:   "Takes permits from a counter without owners",
		arguments: []argument{keyArg, optional(arg("", "permits")), blockArg},
	},
	{
		name: "sem.give", arity: -2, keys: firstKey, use: givesCount,
		summary:   "Gives permits to a counter without owners",
		arguments: []argument{keyArg, optional(arg("", "permits"))},
	},
	{
		name: "latch.set", arity: 3, keys: firstKey, use: takesCount,
		summary:   "Sets the count of a latch that has none",
		arguments: []argument{keyArg, arg("", "count")},
	},
	{
		name: "latch.down", arity: 2, keys: firstKey, use: givesCount,
		summary:   "Counts a latch down",
		arguments: []argument{keyArg},
	},
	{
		name: "latch.get", arity: 2, keys: firstKey, use: readsCount,
		summary:   "Returns the count of a latch",
		arguments: []argument{keyArg},
	},
	{
		name: "latch.await", arity: -2, keys: firstKey, use: readsCount, blocks: true,
		summary:   "Waits until a latch has come to zero",
		arguments: []argument{keyArg, blockArg},
	},
	{
		name: "lock.list", arity: -2, use: readsKeys,
		summary: "Iterates over the names of the locks held through any Leash",
		arguments: []argument{
			arg("", "cursor"), optional(arg("MATCH", "pattern")), optional(arg("COUNT", "count")),
		},
	},
	{name: "lock.help", arity: 1, use: fromMemory, summary: "Prints this help"},
}

func (o *ownCommand) hasCategory(name string) bool {
	return slices.Contains(o.categories(), "@"+name)
}

// arityOK checks the number of arguments.
func (o *ownCommand) arityOK(args [][]byte) bool {
	return len(args) == o.arity || o.arity < 0 && len(args) >= -o.arity
}

// keysOf returns the keys among a command's arguments, or none if the arguments are wrong.
func (o *ownCommand) keysOf(args [][]byte) [][]byte {
	switch {
	case !o.arityOK(args):
	case o.keys == firstKey:
		return args[1:2]
	case o.keys == numKeys:
		if n, ok := resp.ParseInt(args[1]); ok && 0 < n && n <= int64(len(args)-2) {
			return args[2 : 2+n]
		}
	}
	return nil
}

// lockHelp answers LOCK.HELP in the form of Redis's own HELP subcommands.
func (s *session) lockHelp(c *command, args [][]byte) bool {
	if !c.arityOK(args) {
		return s.fail("ERR wrong number of arguments for 'lock.help' command")
	}
	lines := []string{"Leash's own commands. Options may come in any order, times are in milliseconds:"}
	for _, o := range ownCommands {
		lines = append(lines, o.usage(), "    "+o.summary+".")
	}
	b := resp.AppendArray(s.scratch[:0], len(lines))
	for _, line := range lines {
		b = resp.AppendStatus(b, line)
	}
	s.scratch = b
	return s.answer(b)
}
