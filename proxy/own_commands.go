package proxy

import (
	"slices"

	"leash/proxy/resp"
)

// ownCommand is a command that only Leash has. COMMAND, LOCK.HELP, rights, pauses and RESP3 use
// this description.
type ownCommand struct {
	usage   string // as Redis writes it: options in brackets, tokens in capitals; see usageParser
	use     *keyUse
	blocks  bool // may wait
	asMap   bool // its reply is a map
	summary string

	// The fields below are derived from usage.
	name    string // lower case
	arity   int    // number of arguments, with the name; negative: at least that many
	keys    keyPlace
	options []argument
}

// keyPlace says which arguments of a command are keys.
type keyPlace int

const (
	noKey    keyPlace = iota
	firstKey          // the first argument is the only key
	numKeys           // the first argument is the number of keys
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
	takesHash   = &keyUse{[]string{"write", "denyoom", "noscript"}, []string{"@write", "@slow"}, []string{"RW", "access", "update"}, false, []string{"HSET", "f", "v"}}
	endsHash    = &keyUse{[]string{"write", "noscript"}, []string{"@write", "@slow"}, []string{"RW", "access", "delete"}, false, []string{"HSET", "f", "v"}}
	deletesHash = &keyUse{[]string{"write", "noscript"}, []string{"@write", "@slow"}, []string{"RW", "access", "delete"}, false, []string{"DEL"}}
	readsHash   = &keyUse{[]string{"readonly", "noscript"}, []string{"@read", "@slow"}, []string{"RO", "access"}, true, []string{"HGETALL"}}
	takesCount  = &keyUse{[]string{"write", "denyoom", "noscript"}, []string{"@write", "@slow"}, []string{"RW", "access", "update"}, false, []string{"SET", "v"}}
	givesCount  = &keyUse{[]string{"write", "noscript"}, []string{"@write", "@slow"}, []string{"RW", "access", "update"}, false, []string{"SET", "v"}}
	readsCount  = &keyUse{[]string{"readonly", "noscript"}, []string{"@read", "@slow"}, []string{"RO", "access"}, true, []string{"GET"}}
	// LOCK.LIST reads the keys with SCAN.
	readsKeys  = &keyUse{[]string{"readonly", "noscript"}, []string{"@read", "@slow"}, nil, true, nil}
	fromMemory = &keyUse{[]string{"readonly", "noscript", "fast"}, []string{"@read", "@fast"}, []string{"RO", "access"}, true, nil}
)

// ownCommands has all commands of Leash, in the order of LOCK.HELP.
var ownCommands = parseUsages([]ownCommand{
	{usage: "LOCK.ACQUIRE key [BLOCK milliseconds] [LEASE milliseconds | TTL milliseconds] [OWNER id [ID request]] [READ | WRITE | FAIR] [MAXHOLD milliseconds] [IDLE milliseconds] [REPLICAS replicas] [ONLOSS <CLOSE | ERROR>] [ONCLOSE <RELEASE | EXPIRE>]",
		use: takesHash, blocks: true, summary: "Takes a lock, and without LEASE keeps it while the connection lives"},
	{usage: "LOCK.RELEASE key [READ | WRITE] [TOKEN token | OWNER id [ID request]] [ALL]",
		use: endsHash, summary: "Releases a lock"},
	{usage: "LOCK.MACQUIRE numkeys key [key ...] [BLOCK milliseconds] [LEASE milliseconds | TTL milliseconds] [OWNER id [ID request]] [MAXHOLD milliseconds] [IDLE milliseconds] [REPLICAS replicas] [ONLOSS <CLOSE | ERROR>] [ONCLOSE <RELEASE | EXPIRE>] [QUORUM count]",
		use: takesHash, blocks: true, summary: "Takes several locks, all of them or QUORUM, or none"},
	{usage: "LOCK.MRELEASE numkeys key [key ...] [TOKENS token [token ...] | OWNER id]",
		use: endsHash, summary: "Releases several locks"},
	{usage: "LOCK.ATTACH key OWNER id TOKEN token [READ | WRITE]",
		use: takesHash, summary: "Carries a hold of another connection on from this one"},
	{usage: "LOCK.EXTEND key milliseconds [TOKEN token | OWNER id]",
		use: takesHash, summary: "Sets for how long a lock with LEASE still lasts"},
	{usage: "LOCK.TTL key [TOKEN token | OWNER id]",
		use: fromMemory, summary: "Returns for how many ms a lock is certainly held"},
	{usage: "LOCK.AWAITLOSS key TOKEN token BLOCK milliseconds",
		use: readsHash, blocks: true, summary: "Waits until a hold is lost, and returns why"},
	{usage: "LOCK.NOTIFY <ON | OFF>",
		use: fromMemory, summary: "Tells by pushes of RESP3 when a lock of this connection is lost or wanted"},
	{usage: "LOCK.BREAK key",
		use: deletesHash, summary: "Ends a lock against its holder's will"},
	{usage: "LOCK.CHECK key TOKEN token",
		use: readsHash, summary: "Returns whether a token is that of a present hold"},
	{usage: "LOCK.INFO key",
		use: readsHash, asMap: true, summary: "Returns who holds a lock"},
	{usage: "SEM.INIT key permits",
		use: takesCount, summary: "Sets the total of a semaphore that has none"},
	{usage: "SEM.RESIZE key permits",
		use: takesCount, summary: "Changes the total of a semaphore"},
	{usage: "SEM.ACQUIRE key [COUNT count] [BLOCK milliseconds] [LEASE milliseconds | TTL milliseconds] [ID request]",
		use: takesCount, blocks: true, summary: "Takes permits of a semaphore that are renewed while the connection lives"},
	{usage: "SEM.RELEASE key [permit ...]",
		use: givesCount, summary: "Gives permits of a semaphore back"},
	{usage: "SEM.INFO key",
		use: readsCount, asMap: true, summary: "Returns how many permits there are, and where"},
	{usage: "SEM.TAKE key [permits] [BLOCK milliseconds]",
		use: takesCount, blocks: true, summary: "Takes permits from a counter without owners"},
	{usage: "SEM.GIVE key [permits]",
		use: givesCount, summary: "Gives permits to a counter without owners"},
	{usage: "LATCH.SET key count",
		use: takesCount, summary: "Sets the count of a latch that has none"},
	{usage: "LATCH.DOWN key",
		use: givesCount, summary: "Counts a latch down"},
	{usage: "LATCH.GET key",
		use: readsCount, summary: "Returns the count of a latch"},
	{usage: "LATCH.AWAIT key [BLOCK milliseconds]",
		use: readsCount, blocks: true, summary: "Waits until a latch has come to zero"},
	{usage: "LOCK.LIST cursor [MATCH pattern] [COUNT count]",
		use: readsKeys, summary: "Iterates over the names of the locks held through any Leash"},
	{usage: "LOCK.HELP",
		use: fromMemory, summary: "Prints this help"},
})

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
		lines = append(lines, o.usage, "    "+o.summary+".")
	}
	b := resp.AppendArray(s.scratch[:0], len(lines))
	for _, line := range lines {
		b = resp.AppendStatus(b, line)
	}
	s.scratch = b
	return s.answer(b)
}
