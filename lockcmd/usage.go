package lockcmd

import "leash/proxy/usage"

// Uses. Locks are hashes, permits and counters strings.
var (
	takesHash = &usage.KeyUse{
		Flags: []string{"write", "denyoom", "noscript"}, Categories: []string{"@write", "@slow"},
		KeyFlags: []string{"RW", "access", "update"}, Right: []string{"HSET", "f", "v"},
	}
	endsHash = &usage.KeyUse{
		Flags: []string{"write", "noscript"}, Categories: []string{"@write", "@slow"},
		KeyFlags: []string{"RW", "access", "delete"}, Right: []string{"HSET", "f", "v"},
	}
	breaksHash = &usage.KeyUse{
		Flags: []string{"write", "noscript"}, Categories: []string{"@admin", "@write", "@slow", "@dangerous"},
		KeyFlags: []string{"RW", "access", "delete"}, Right: []string{"DEL"},
	}
	readsHash = &usage.KeyUse{
		Flags: []string{"readonly", "noscript"}, Categories: []string{"@read", "@slow"},
		KeyFlags: []string{"RO", "access"}, Reads: true, Right: []string{"HGETALL"},
	}
	takesCount = &usage.KeyUse{
		Flags: []string{"write", "denyoom", "noscript"}, Categories: []string{"@write", "@slow"},
		KeyFlags: []string{"RW", "access", "update"}, Right: []string{"SET", "v"},
	}
	givesCount = &usage.KeyUse{
		Flags: []string{"write", "noscript"}, Categories: []string{"@write", "@slow"},
		KeyFlags: []string{"RW", "access", "update"}, Right: []string{"SET", "v"},
	}
	readsCount = &usage.KeyUse{
		Flags: []string{"readonly", "noscript"}, Categories: []string{"@read", "@slow"},
		KeyFlags: []string{"RO", "access"}, Reads: true, Right: []string{"GET"},
	}
	// LOCK.LIST reads the keys with SCAN.
	readsKeys = &usage.KeyUse{
		Flags: []string{"readonly", "noscript"}, Categories: []string{"@read", "@slow"},
		Reads: true,
	}
	fromMemory = &usage.KeyUse{
		Flags: []string{"readonly", "noscript", "fast"}, Categories: []string{"@read", "@fast"},
		KeyFlags: []string{"RO", "access"}, Reads: true,
	}
)

// Arguments that several commands have.
var (
	keyArg      = usage.Arg("", "key")
	keysArg     = usage.Repeated(keyArg)
	blockArg    = usage.Optional(usage.Arg("BLOCK", "milliseconds"))
	leaseArg    = usage.Optional(usage.OneOf("", usage.Arg("LEASE", "milliseconds"), usage.Arg("TTL", "milliseconds")))
	requestArg  = usage.Optional(usage.Arg("ID", "request"))
	ownerArg    = usage.Optional(usage.Arg("OWNER", "id"), requestArg)
	maxHoldArg  = usage.Optional(usage.Arg("MAXHOLD", "milliseconds"))
	idleArg     = usage.Optional(usage.Arg("IDLE", "milliseconds"))
	replicasArg = usage.Optional(usage.Arg("REPLICAS", "replicas"))
	onLossArg   = usage.Optional(usage.OneWord("ONLOSS", "CLOSE", "ERROR"))
	onCloseArg  = usage.Optional(usage.OneWord("ONCLOSE", "RELEASE", "EXPIRE"))
	modeArg     = usage.Optional(usage.OneWord("", "READ", "WRITE"))
	whoseArg    = usage.Optional(usage.OneOf("", usage.Arg("TOKEN", "token"), usage.Arg("OWNER", "id")))
)

// Usage describes the commands that Do runs, LOCK.LIST and LOCK.HELP, in the order of LOCK.HELP.
var Usage = []usage.Command{
	{
		Name: "lock.acquire", Arity: -2, Keys: usage.FirstKey, Use: takesHash, Blocks: true,
		Summary: "Takes a lock, and without LEASE keeps it while the connection lives",
		Arguments: []usage.Argument{
			keyArg, blockArg, leaseArg, ownerArg,
			usage.Optional(usage.OneWord("", "READ", "WRITE", "FAIR")),
			maxHoldArg, idleArg, replicasArg, onLossArg, onCloseArg,
		},
	},
	{
		Name: "lock.release", Arity: -2, Keys: usage.FirstKey, Use: endsHash,
		Summary: "Releases a lock",
		Arguments: []usage.Argument{
			keyArg, modeArg,
			usage.Optional(usage.OneOf("",
				usage.Arg("TOKEN", "token"), usage.Together(usage.Arg("OWNER", "id"), requestArg),
			)),
			usage.Optional(usage.Word("ALL")),
		},
	},
	{
		Name: "lock.macquire", Arity: -3, Keys: usage.NumKeys, Use: takesHash, Blocks: true,
		Summary: "Takes several locks, all of them or QUORUM, or none",
		Arguments: []usage.Argument{
			usage.Arg("", "numkeys"), keysArg, blockArg, leaseArg, ownerArg, maxHoldArg, idleArg, replicasArg,
			onLossArg, onCloseArg, usage.Optional(usage.Arg("QUORUM", "count")),
		},
	},
	{
		Name: "lock.mrelease", Arity: -3, Keys: usage.NumKeys, Use: endsHash,
		Summary: "Releases several locks",
		Arguments: []usage.Argument{
			usage.Arg("", "numkeys"), keysArg,
			usage.Optional(usage.OneOf("", usage.Repeated(usage.Arg("TOKENS", "token")), usage.Arg("OWNER", "id"))),
		},
	},
	{
		Name: "lock.attach", Arity: -6, Keys: usage.FirstKey, Use: takesHash,
		Summary:   "Carries a hold of another connection on from this one",
		Arguments: []usage.Argument{keyArg, usage.Arg("OWNER", "id"), usage.Arg("TOKEN", "token"), modeArg},
	},
	{
		Name: "lock.extend", Arity: -3, Keys: usage.FirstKey, Use: takesHash,
		Summary:   "Sets for how long a lock with LEASE still lasts",
		Arguments: []usage.Argument{keyArg, usage.Arg("", "milliseconds"), whoseArg},
	},
	{
		Name: "lock.ttl", Arity: -2, Keys: usage.FirstKey, Use: fromMemory,
		Summary:   "Returns for how many ms a lock is certainly held",
		Arguments: []usage.Argument{keyArg, whoseArg},
	},
	{
		Name: "lock.awaitloss", Arity: 6, Keys: usage.FirstKey, Use: readsHash, Blocks: true,
		Summary:   "Waits until a hold is lost, and returns why",
		Arguments: []usage.Argument{keyArg, usage.Arg("TOKEN", "token"), usage.Arg("BLOCK", "milliseconds")},
	},
	{
		Name: "lock.notify", Arity: 2, Use: fromMemory,
		Summary:   "Tells by pushes of RESP3 when a lock of this connection is lost or wanted",
		Arguments: []usage.Argument{usage.OneWord("", "ON", "OFF")},
	},
	{
		Name: "lock.break", Arity: 2, Keys: usage.FirstKey, Use: breaksHash,
		Summary:   "Ends a lock against its holder's will",
		Arguments: []usage.Argument{keyArg},
	},
	{
		Name: "lock.check", Arity: 4, Keys: usage.FirstKey, Use: readsHash,
		Summary:   "Returns whether a token is that of a present hold",
		Arguments: []usage.Argument{keyArg, usage.Arg("TOKEN", "token")},
	},
	{
		Name: "lock.info", Arity: 2, Keys: usage.FirstKey, Use: readsHash, AsMap: true,
		Summary:   "Returns who holds a lock",
		Arguments: []usage.Argument{keyArg},
	},
	{
		Name: "sem.init", Arity: 3, Keys: usage.FirstKey, Use: takesCount,
		Summary:   "Sets the total of a semaphore that has none",
		Arguments: []usage.Argument{keyArg, usage.Arg("", "permits")},
	},
	{
		Name: "sem.resize", Arity: 3, Keys: usage.FirstKey, Use: takesCount,
		Summary:   "Changes the total of a semaphore",
		Arguments: []usage.Argument{keyArg, usage.Arg("", "permits")},
	},
	{
		Name: "sem.acquire", Arity: -2, Keys: usage.FirstKey, Use: takesCount, Blocks: true,
		Summary: "Takes permits of a semaphore that are renewed while the connection lives",
		Arguments: []usage.Argument{
			keyArg, usage.Optional(usage.Arg("COUNT", "count")), blockArg, leaseArg, requestArg,
		},
	},
	{
		Name: "sem.release", Arity: -2, Keys: usage.FirstKey, Use: givesCount,
		Summary:   "Gives permits of a semaphore back",
		Arguments: []usage.Argument{keyArg, usage.Optional(usage.Repeated(usage.Arg("", "permit")))},
	},
	{
		Name: "sem.info", Arity: 2, Keys: usage.FirstKey, Use: readsCount, AsMap: true,
		Summary:   "Returns how many permits there are, and where",
		Arguments: []usage.Argument{keyArg},
	},
	{
		Name: "sem.take", Arity: -2, Keys: usage.FirstKey, Use: takesCount, Blocks: true,
		Summary:   "Takes permits from a counter without owners",
		Arguments: []usage.Argument{keyArg, usage.Optional(usage.Arg("", "permits")), blockArg},
	},
	{
		Name: "sem.give", Arity: -2, Keys: usage.FirstKey, Use: givesCount,
		Summary:   "Gives permits to a counter without owners",
		Arguments: []usage.Argument{keyArg, usage.Optional(usage.Arg("", "permits"))},
	},
	{
		Name: "latch.set", Arity: 3, Keys: usage.FirstKey, Use: takesCount,
		Summary:   "Sets the count of a latch that has none",
		Arguments: []usage.Argument{keyArg, usage.Arg("", "count")},
	},
	{
		Name: "latch.down", Arity: 2, Keys: usage.FirstKey, Use: givesCount,
		Summary:   "Counts a latch down",
		Arguments: []usage.Argument{keyArg},
	},
	{
		Name: "latch.get", Arity: 2, Keys: usage.FirstKey, Use: readsCount,
		Summary:   "Returns the count of a latch",
		Arguments: []usage.Argument{keyArg},
	},
	{
		Name: "latch.await", Arity: -2, Keys: usage.FirstKey, Use: readsCount, Blocks: true,
		Summary:   "Waits until a latch has come to zero",
		Arguments: []usage.Argument{keyArg, blockArg},
	},
	{
		Name: "lock.list", Arity: -2, Use: readsKeys,
		Summary: "Iterates over the names of the locks held through any Leash",
		Arguments: []usage.Argument{
			usage.Arg("", "cursor"), usage.Optional(usage.Arg("MATCH", "pattern")),
			usage.Optional(usage.Arg("COUNT", "count")), usage.Optional(usage.Word("PARTIAL")),
		},
	},
	{Name: "lock.help", Arity: 1, Use: fromMemory, Summary: "Prints this help"},
}
