package proxy_test

import (
	"math/rand/v2"
	"strconv"
)

// walker makes a random walk through the states of a connection: subscribed, blocked, in MULTI,
// watching, RESP2 or RESP3, another user or database, CLIENT REPLY OFF. It does not always know its
// state and need not, because Redis is the model.
type walker struct {
	rng     *rand.Rand
	id      string // of its keys, channels and markers
	cluster bool

	marks int
	multi bool // probably
	muted bool // by CLIENT REPLY OFF, probably
}

func (w *walker) key() string     { return "{" + w.id + "}" + w.pick("a", "b") }
func (w *walker) list() string    { return "{" + w.id + "}" + w.pick("l", "m") }
func (w *walker) channel() string { return "{" + w.id + "}" + w.pick("news", "talk", "noise") }
func (w *walker) pattern() string { return "{" + w.id + "}" + w.pick("n*", "t?lk", "*") }
func (w *walker) pick(of ...string) string {
	return of[w.rng.IntN(len(of))]
}

// mark returns a word that is in no other reply.
func (w *walker) mark() string {
	w.marks++
	return "mark" + strconv.Itoa(w.marks) + "of" + w.id
}

// walkUsers exist on all servers of the test.
var walkUsers = [][]any{
	{"ACL", "SETUSER", "alice", "on", ">wonder", "~*", "&*", "+@all"},
	{"ACL", "SETUSER", "bob", "on", ">builder", "~*", "&*", "+@all", "-incr", "-psubscribe"},
}

// steps are the steps of a walk. A step is listed as often as it should be chosen.
var steps = []func(w *walker) []string{
	func(w *walker) []string { return []string{"ECHO", w.mark()} },
	func(w *walker) []string { return []string{"ECHO", w.mark()} },
	func(w *walker) []string { return []string{"PING", w.mark()} },
	func(w *walker) []string { return []string{"PING"} },
	func(w *walker) []string { return []string{"SET", w.key(), w.mark()} },
	func(w *walker) []string { return []string{"GET", w.key()} },
	func(w *walker) []string { return []string{"INCR", "{" + w.id + "}n"} },
	func(w *walker) []string { return []string{"MGET", w.key(), w.key(), w.list()} },
	func(w *walker) []string { return []string{"RPUSH", w.list(), w.mark()} },
	func(w *walker) []string { return []string{"DEL", w.list(), w.key()} },
	func(w *walker) []string { return []string{"GET"} },
	func(w *walker) []string { return []string{"NOSUCH", w.mark()} },
	func(w *walker) []string {
		return []string{"EVAL", "return {ARGV[1], redis.call('GET', KEYS[1])}", "1", w.key(), w.mark()}
	},

	func(w *walker) []string { return []string{"BLPOP", w.list(), w.list(), "0.001"} },
	func(w *walker) []string { return []string{"BLMOVE", w.list(), w.list(), "LEFT", "RIGHT", "0.001"} },
	func(w *walker) []string { return []string{"XREAD", "BLOCK", "1", "STREAMS", "{" + w.id + "}x", "0"} },
	func(w *walker) []string { return []string{"WAIT", "0", "10"} },

	func(w *walker) []string { return w.notMuted("SUBSCRIBE", w.channel()) },
	func(w *walker) []string { return w.notInMulti("SUBSCRIBE", w.channel(), w.channel()) },
	func(w *walker) []string { return w.notMuted("PSUBSCRIBE", w.pattern()) },
	func(w *walker) []string { return w.notMuted("SSUBSCRIBE", w.channel()) },
	func(w *walker) []string { return w.notMuted("UNSUBSCRIBE", w.channel()) },
	func(w *walker) []string { return w.notInMulti("UNSUBSCRIBE") },
	func(w *walker) []string { return w.notInMulti("PUNSUBSCRIBE") },
	func(w *walker) []string { return w.notInMulti("SUNSUBSCRIBE") },
	func(w *walker) []string { return w.notMuted("PUNSUBSCRIBE", w.pattern()) },
	func(w *walker) []string { return w.notInMulti("PUBLISH", w.channel(), w.mark()) },
	func(w *walker) []string { return w.notInMulti("SPUBLISH", w.channel(), w.mark()) },

	(*walker).begin, (*walker).begin, (*walker).begin,
	(*walker).exec, (*walker).exec, (*walker).exec,
	func(w *walker) []string { w.multi = false; return []string{"DISCARD"} },
	func(w *walker) []string { return []string{"WATCH", w.key()} },
	func(w *walker) []string { return []string{"WATCH", w.key(), w.list()} },
	func(w *walker) []string { return []string{"UNWATCH"} },

	func(w *walker) []string { return []string{"HELLO", "2"} },
	func(w *walker) []string { return []string{"HELLO", "3"} },
	func(w *walker) []string { return []string{"HELLO", "3"} },
	func(w *walker) []string {
		return []string{"HELLO", w.pick("2", "3"), "AUTH", "alice", w.pick("wonder", "wonder", "wrong"), "SETNAME",
			w.id}
	},
	func(w *walker) []string { return []string{"HELLO", "4"} },
	func(w *walker) []string { return []string{"AUTH", "bob", w.pick("builder", "builder", "wrong")} },
	func(w *walker) []string { return []string{"AUTH", "alice", "wonder"} },
	func(w *walker) []string { return []string{"AUTH", "default", "anything"} },
	func(w *walker) []string { return []string{"SELECT", w.pick("0", "1", "2", "77", "x")} },
	func(w *walker) []string { return []string{"CLIENT", "SETNAME", w.mark()} },
	func(w *walker) []string { return []string{"CLIENT", "GETNAME"} },
	func(w *walker) []string { return w.notInMulti("CLIENT", "REPLY", "SKIP") },
	func(w *walker) []string { w.muted = true; return w.notInMulti("CLIENT", "REPLY", "OFF") },
	func(w *walker) []string { return w.notInMulti("CLIENT", "REPLY", "ON") },
	func(w *walker) []string { w.multi = false; return []string{"RESET"} },
}

// notInMulti replaces a command that does not have exactly one reply inside EXEC. No client could
// parse Redis's reply to it.
func (w *walker) notInMulti(args ...string) []string {
	if w.multi {
		return []string{"ECHO", w.mark()}
	}
	return args
}

// notMuted replaces a command that replies inside EXEC even with CLIENT REPLY OFF. Redis would send
// a part of an array.
func (w *walker) notMuted(args ...string) []string {
	if w.muted {
		return w.notInMulti(args...)
	}
	return args
}

func (w *walker) begin() []string {
	w.multi = true
	return []string{"MULTI"}
}

func (w *walker) exec() []string {
	w.multi = false
	return []string{"EXEC"}
}

func (w *walker) batch() (batch [][]string) {
	for range 1 + w.rng.IntN(40) {
		batch = append(batch, steps[w.rng.IntN(len(steps))](w))
		if !w.multi && w.rng.IntN(20) == 0 {
			batch = append(batch, w.ownMessage()...)
		}
	}
	return append(batch, w.rest()...)
}

// ownMessage subscribes to a channel and publishes to it.
func (w *walker) ownMessage() [][]string {
	channel := w.channel()
	return [][]string{{"HELLO", "3"}, {"SUBSCRIBE", channel}, {"PUBLISH", channel, w.mark()}}
}

// rest brings the connection to a state in which PING is answered, and sends one.
func (w *walker) rest() [][]string {
	w.multi = false
	end := []string{"PING", w.mark()}
	how := w.rng.IntN(4)
	if w.muted { // and cannot be told to speak in RESP2's subscribe mode
		how %= 2
	}
	w.muted = false
	switch how {
	case 0:
		return [][]string{{"RESET"}, end}
	case 1:
		return [][]string{{"DISCARD"}, {"UNSUBSCRIBE"}, {"PUNSUBSCRIBE"}, {"SUNSUBSCRIBE"},
			{"CLIENT", "REPLY", "ON"}, end}
	}
	return [][]string{{"DISCARD"}, end}
}
