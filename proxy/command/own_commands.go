package command

// Uses. Locks are hashes, permits and counters strings.
var (
	takesHash = &KeyUse{
		Flags: []string{"write", "denyoom", "noscript"}, Categories: []string{"@write", "@slow"},
		KeyFlags: []string{"RW", "access", "update"}, Right: []string{"HSET", "f", "v"},
	}
	endsHash = &KeyUse{
		Flags: []string{"write", "noscript"}, Categories: []string{"@write", "@slow"},
		KeyFlags: []string{"RW", "access", "delete"}, Right: []string{"HSET", "f", "v"},
	}
	breaksHash = &KeyUse{
		Flags: []string{"write", "noscript"}, Categories: []string{"@admin", "@write", "@slow", "@dangerous"},
		KeyFlags: []string{"RW", "access", "delete"}, Right: []string{"DEL"},
	}
	readsHash = &KeyUse{
		Flags: []string{"readonly", "noscript"}, Categories: []string{"@read", "@slow"},
		KeyFlags: []string{"RO", "access"}, Reads: true, Right: []string{"HGETALL"},
	}
	takesCount = &KeyUse{
		Flags: []string{"write", "denyoom", "noscript"}, Categories: []string{"@write", "@slow"},
		KeyFlags: []string{"RW", "access", "update"}, Right: []string{"SET", "v"},
	}
	givesCount = &KeyUse{
		Flags: []string{"write", "noscript"}, Categories: []string{"@write", "@slow"},
		KeyFlags: []string{"RW", "access", "update"}, Right: []string{"SET", "v"},
	}
	readsCount = &KeyUse{
		Flags: []string{"readonly", "noscript"}, Categories: []string{"@read", "@slow"},
		KeyFlags: []string{"RO", "access"}, Reads: true, Right: []string{"GET"},
	}
	// LOCK.LIST reads the keys with SCAN.
	readsKeys = &KeyUse{
		Flags: []string{"readonly", "noscript"}, Categories: []string{"@read", "@slow"},
		Reads: true,
	}
	fromMemory = &KeyUse{
		Flags: []string{"readonly", "noscript", "fast"}, Categories: []string{"@read", "@fast"},
		KeyFlags: []string{"RO", "access"}, Reads: true,
	}
)

// AllOwn has all commands of Leash, in the order of LOCK.HELP.
var AllOwn = []Own{
	{
		Name: "lock.acquire", Arity: -2, Keys: FirstKey, Use: takesHash, Blocks: true,
		Summary: "Takes a lock, and without LEASE keeps it while the connection lives",
		Arguments: []Argument{
			keyArg, blockArg, leaseArg, ownerArg,
			optional(oneOf("", word("READ"), word("WRITE"), word("FAIR"))), maxHoldArg, idleArg, replicasArg,
			onLossArg, onCloseArg,
		},
	},
	{
		Name: "lock.release", Arity: -2, Keys: FirstKey, Use: endsHash,
		Summary: "Releases a lock",
		Arguments: []Argument{
			keyArg, modeArg,
			optional(oneOf("", arg("TOKEN", "token"), together(arg("OWNER", "id"), requestArg))),
			optional(word("ALL")),
		},
	},
	{
		Name: "lock.macquire", Arity: -3, Keys: NumKeys, Use: takesHash, Blocks: true,
		Summary: "Takes several locks, all of them or QUORUM, or none",
		Arguments: []Argument{
			arg("", "numkeys"), keysArg, blockArg, leaseArg, ownerArg, maxHoldArg, idleArg, replicasArg,
			onLossArg, onCloseArg, optional(arg("QUORUM", "count")),
		},
	},
	{
		Name: "lock.mrelease", Arity: -3, Keys: NumKeys, Use: endsHash,
		Summary: "Releases several locks",
		Arguments: []Argument{
			arg("", "numkeys"), keysArg,
			optional(oneOf("", repeated(arg("TOKENS", "token")), arg("OWNER", "id"))),
		},
	},
	{
		Name: "lock.attach", Arity: -6, Keys: FirstKey, Use: takesHash,
		Summary:   "Carries a hold of another connection on from this one",
		Arguments: []Argument{keyArg, arg("OWNER", "id"), arg("TOKEN", "token"), modeArg},
	},
	{
		Name: "lock.extend", Arity: -3, Keys: FirstKey, Use: takesHash,
		Summary:   "Sets for how long a lock with LEASE still lasts",
		Arguments: []Argument{keyArg, arg("", "milliseconds"), whoseArg},
	},
	{
		Name: "lock.ttl", Arity: -2, Keys: FirstKey, Use: fromMemory,
		Summary:   "Returns for how many ms a lock is certainly held",
		Arguments: []Argument{keyArg, whoseArg},
	},
	{
		Name: "lock.awaitloss", Arity: 6, Keys: FirstKey, Use: readsHash, Blocks: true,
		Summary:   "Waits until a hold is lost, and returns why",
		Arguments: []Argument{keyArg, arg("TOKEN", "token"), arg("BLOCK", "milliseconds")},
	},
	{
		Name: "lock.notify", Arity: 2, Use: fromMemory,
		Summary:   "Tells by pushes of RESP3 when a lock of this connection is lost or wanted",
		Arguments: []Argument{oneOf("", word("ON"), word("OFF"))},
	},
	{
		Name: "lock.break", Arity: 2, Keys: FirstKey, Use: breaksHash,
		Summary:   "Ends a lock against its holder's will",
		Arguments: []Argument{keyArg},
	},
	{
		Name: "lock.check", Arity: 4, Keys: FirstKey, Use: readsHash,
		Summary:   "Returns whether a token is that of a present hold",
		Arguments: []Argument{keyArg, arg("TOKEN", "token")},
	},
	{
		Name: "lock.info", Arity: 2, Keys: FirstKey, Use: readsHash, AsMap: true,
		Summary:   "Returns who holds a lock",
		Arguments: []Argument{keyArg},
	},
	{
		Name: "sem.init", Arity: 3, Keys: FirstKey, Use: takesCount,
		Summary:   "Sets the total of a semaphore that has none",
		Arguments: []Argument{keyArg, arg("", "permits")},
	},
	{
		Name: "sem.resize", Arity: 3, Keys: FirstKey, Use: takesCount,
		Summary:   "Changes the total of a semaphore",
		Arguments: []Argument{keyArg, arg("", "permits")},
	},
	{
		Name: "sem.acquire", Arity: -2, Keys: FirstKey, Use: takesCount, Blocks: true,
		Summary: "Takes permits of a semaphore that are renewed while the connection lives",
		Arguments: []Argument{
			keyArg, optional(arg("COUNT", "count")), blockArg, leaseArg, requestArg,
		},
	},
	{
		Name: "sem.release", Arity: -2, Keys: FirstKey, Use: givesCount,
		Summary:   "Gives permits of a semaphore back",
		Arguments: []Argument{keyArg, optional(repeated(arg("", "permit")))},
	},
	{
		Name: "sem.info", Arity: 2, Keys: FirstKey, Use: readsCount, AsMap: true,
		Summary:   "Returns how many permits there are, and where",
		Arguments: []Argument{keyArg},
	},
	{
		Name: "sem.take", Arity: -2, Keys: FirstKey, Use: takesCount, Blocks: true,
		Summary:   "Takes permits from a counter without owners",
		Arguments: []Argument{keyArg, optional(arg("", "permits")), blockArg},
	},
	{
		Name: "sem.give", Arity: -2, Keys: FirstKey, Use: givesCount,
		Summary:   "Gives permits to a counter without owners",
		Arguments: []Argument{keyArg, optional(arg("", "permits"))},
	},
	{
		Name: "latch.set", Arity: 3, Keys: FirstKey, Use: takesCount,
		Summary:   "Sets the count of a latch that has none",
		Arguments: []Argument{keyArg, arg("", "count")},
	},
	{
		Name: "latch.down", Arity: 2, Keys: FirstKey, Use: givesCount,
		Summary:   "Counts a latch down",
		Arguments: []Argument{keyArg},
	},
	{
		Name: "latch.get", Arity: 2, Keys: FirstKey, Use: readsCount,
		Summary:   "Returns the count of a latch",
		Arguments: []Argument{keyArg},
	},
	{
		Name: "latch.await", Arity: -2, Keys: FirstKey, Use: readsCount, Blocks: true,
		Summary:   "Waits until a latch has come to zero",
		Arguments: []Argument{keyArg, blockArg},
	},
	{
		Name: "lock.list", Arity: -2, Use: readsKeys,
		Summary: "Iterates over the names of the locks held through any Leash",
		Arguments: []Argument{
			arg("", "cursor"), optional(arg("MATCH", "pattern")), optional(arg("COUNT", "count")),
			optional(word("PARTIAL")),
		},
	},
	{Name: "lock.help", Arity: 1, Use: fromMemory, Summary: "Prints this help"},
	admin,
}
