package lockcmd

import (
	"slices"
	"strings"

	"leash/lockcmd/script"
	"leash/proxy/usage"
)

// Uses. Locks are hashes, permits and counters strings.
var (
	takesHash  = keyUse("write denyoom noscript", "@write @slow", "RW access update", "HSET f v")
	endsHash   = keyUse("write noscript", "@write @slow", "RW access delete", "HSET f v")
	breaksHash = keyUse("write noscript", "@admin @write @slow @dangerous", "RW access delete", "DEL")
	readsHash  = keyUse("readonly noscript", "@read @slow", "RO access", "HGETALL")
	takesCount = keyUse("write denyoom noscript", "@write @slow", "RW access update", "SET v")
	givesCount = keyUse("write noscript", "@write @slow", "RW access update", "SET v")
	readsCount = keyUse("readonly noscript", "@read @slow", "RO access", "GET")
	readsKeys  = keyUse("readonly noscript", "@read @slow", "", "") // with SCAN
	fromMemory = keyUse("readonly noscript fast", "@read @fast", "RO access", "")
)

func keyUse(flags, categories, keyFlags, right string) *usage.KeyUse {
	return &usage.KeyUse{
		Flags: strings.Fields(flags), Categories: strings.Fields(categories), KeyFlags: strings.Fields(keyFlags),
		Reads: strings.HasPrefix(flags, "readonly"), Right: strings.Fields(right),
	}
}

// Arguments that several commands have.
var (
	keyArg      = usage.Arg("", "key")
	numKeysArg  = usage.Arg("", "numkeys")
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
	tokenArg    = usage.Arg("TOKEN", "token")
	permitsArg  = usage.Arg("", "permits")
	whoseArg    = usage.Optional(usage.OneOf("", tokenArg, usage.Arg("OWNER", "id")))
)

// command is a command that Usage describes. run is nil for those that the session answers.
type command struct {
	usage.Command
	run run
}

// table has all commands, in the order of LOCK.HELP.
var table = []command{
	describe("lock.acquire", -2, (*Carrier).acquire, takesHash,
		"Takes a lock, and without LEASE keeps it while the connection lives",
		keyArg, blockArg, leaseArg, ownerArg, usage.Optional(usage.OneWord("", "READ", "WRITE", "FAIR")),
		maxHoldArg, idleArg, replicasArg, onLossArg, onCloseArg),
	describe("lock.release", -2, (*Carrier).release, endsHash, "Releases a lock",
		keyArg, modeArg,
		usage.Optional(usage.OneOf("", tokenArg, usage.Together(usage.Arg("OWNER", "id"), requestArg))),
		usage.Optional(usage.Word("ALL"))),
	describe("lock.macquire", -3, (*Carrier).macquire, takesHash,
		"Takes several locks, all of them or QUORUM, or none",
		numKeysArg, keysArg, blockArg, leaseArg, ownerArg, maxHoldArg, idleArg, replicasArg, onLossArg,
		onCloseArg, usage.Optional(usage.Arg("QUORUM", "count"))),
	describe("lock.mrelease", -3, (*Carrier).mrelease, endsHash, "Releases several locks",
		numKeysArg, keysArg,
		usage.Optional(usage.OneOf("", usage.Repeated(usage.Arg("TOKENS", "token")), usage.Arg("OWNER", "id")))),
	describe("lock.attach", -6, (*Carrier).attach, takesHash, "Carries a hold of another connection on from this one",
		keyArg, usage.Arg("OWNER", "id"), tokenArg, modeArg),
	describe("lock.extend", -3, (*Carrier).extend, takesHash, "Sets for how long a lock with LEASE still lasts",
		keyArg, usage.Arg("", "milliseconds"), whoseArg),
	describe("lock.ttl", -2, (*Carrier).ttl, fromMemory, "Returns for how many ms a lock is certainly held",
		keyArg, whoseArg),
	describe("lock.awaitloss", 6, (*Carrier).awaitLoss, readsHash, "Waits until a hold is lost, and returns why",
		keyArg, tokenArg, usage.Arg("BLOCK", "milliseconds")),
	describe("lock.notify", 2, (*Carrier).notify, fromMemory,
		"Tells by pushes of RESP3 when a lock of this connection is lost or wanted",
		usage.OneWord("", "ON", "OFF")),
	describe("lock.break", 2, (*Carrier).breakLock, breaksHash, "Ends a lock against its holder's will",
		keyArg),
	describe("lock.check", 4, (*Carrier).check, readsHash, "Returns whether a token is that of a present hold",
		keyArg, tokenArg),
	describe("lock.info", 2, (*Carrier).info, readsHash, "Returns who holds a lock", keyArg),
	describe("sem.init", 3, countCommand(parseTotal(maxPermits), (*script.Client).InitSemaphore), takesCount,
		"Sets the total of a semaphore that has none", keyArg, permitsArg),
	describe("sem.resize", 3, countCommand(parseTotal(maxPermits), (*script.Client).ResizeSemaphore), takesCount,
		"Changes the total of a semaphore", keyArg, permitsArg),
	describe("sem.acquire", -2, (*Carrier).acquirePermits, takesCount,
		"Takes permits of a semaphore that are renewed while the connection lives",
		keyArg, usage.Optional(usage.Arg("COUNT", "count")), blockArg, leaseArg, requestArg),
	describe("sem.release", -2, (*Carrier).releasePermits, givesCount, "Gives permits of a semaphore back",
		keyArg, usage.Optional(usage.Repeated(usage.Arg("", "permit")))),
	describe("sem.info", 2, (*Carrier).semaphoreInfo, readsCount, "Returns how many permits there are, and where",
		keyArg),
	describe("sem.take", -2, (*Carrier).take, takesCount, "Takes permits from a counter without owners",
		keyArg, usage.Optional(permitsArg), blockArg),
	describe("sem.give", -2, countCommand(parseGive, (*script.Client).Give), givesCount,
		"Gives permits to a counter without owners", keyArg, usage.Optional(permitsArg)),
	describe("latch.set", 3, countCommand(parseTotal(maxCount), (*script.Client).SetLatch), takesCount,
		"Sets the count of a latch that has none", keyArg, usage.Arg("", "count")),
	describe("latch.down", 2, countCommand(parseDown, countDown), givesCount, "Counts a latch down", keyArg),
	describe("latch.get", 2, (*Carrier).getLatch, readsCount, "Returns the count of a latch", keyArg),
	describe("latch.await", -2, (*Carrier).awaitLatch, readsCount, "Waits until a latch has come to zero",
		keyArg, blockArg),
	describe("lock.list", -2, nil, readsKeys, "Iterates over the names of the locks held through any Leash",
		usage.Arg("", "cursor"), usage.Optional(usage.Arg("MATCH", "pattern")),
		usage.Optional(usage.Arg("COUNT", "count")), usage.Optional(usage.Word("PARTIAL"))),
	describe("lock.help", 1, nil, fromMemory, "Prints this help"),
}

// describe makes an entry of the table. The first argument tells which ones are keys.
func describe(name string, arity int, run run, use *usage.KeyUse, summary string, args ...usage.Argument) command {
	c := usage.Command{Name: name, Arity: arity, Use: use, Summary: summary, Arguments: args}
	switch {
	case len(args) > 0 && args[0].Kind == "key":
		c.Keys = usage.FirstKey
	case len(args) > 0 && args[0].Name == "numkeys":
		c.Keys = usage.NumKeys
	}
	c.Blocks = slices.ContainsFunc(args, func(a usage.Argument) bool { return a.Token == "BLOCK" })
	c.AsMap = strings.HasSuffix(name, ".info")
	return command{c, run}
}

// Usage describes the commands that Do runs, LOCK.LIST and LOCK.HELP, in the order of LOCK.HELP.
var Usage = func() (all []usage.Command) {
	for _, c := range table {
		all = append(all, c.Command)
	}
	return all
}()

// commands are what Do runs, by name in capitals.
var commands = func() map[string]*command {
	byName := make(map[string]*command)
	for i, c := range table {
		if c.run != nil {
			byName[strings.ToUpper(c.Name)] = &table[i]
		}
	}
	return byName
}()
