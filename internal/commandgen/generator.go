package commandgen

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// Options say what a Generator makes.
type Options struct {
	Keys KeyRule
	// Without are commands not to make, by upper-case name: "FUNCTION|LOAD".
	Without map[string]bool
	// Databases is how many databases SELECT goes through; if zero, SELECT is not made.
	Databases int
	// Transactions makes MULTI, EXEC, DISCARD, WATCH and UNWATCH as well.
	Transactions bool
	// NotQueued are commands not to make between MULTI and EXEC.
	NotQueued map[string]bool
}

// Generator makes random commands.
type Generator struct {
	rng   *rand.Rand
	opt   Options
	specs []spec
	dumps []string
	lib   string
	seq   int // for ids of streams
	queue [][]string

	// The fields below are about the current command.
	name    string
	kind    kind
	tag     string
	spread  bool // its keys may have other tags
	single  bool // it has one key, which may be anything
	tied    bool // all its keys must have one hash tag
	numkeys int  // as the last numkeys argument said; -1 before
	listed  int  // keys of the last list of keys

	inTransaction bool
}

// New returns a generator of the grammar's commands.
func (gr *Grammar) New(rng *rand.Rand, opt Options) *Generator {
	g := &Generator{rng: rng, opt: opt, dumps: gr.dumps, lib: gr.lib}
	for _, s := range gr.specs {
		if LeftOut[s.name] == "" && !opt.Without[s.name] {
			g.specs = append(g.specs, s)
		}
	}
	return g
}

// Next makes a command.
func (g *Generator) Next() []string {
	if len(g.queue) > 0 {
		next := g.queue[0]
		g.queue = g.queue[1:]
		return next
	}
	switch n := g.rng.IntN(1000); {
	case n < 30:
		return g.otherCommand()
	case n < 40 && g.opt.Transactions:
		return g.transaction()
	}
	return g.mangle(g.data())
}

// InTransaction reports whether the next command belongs to a transaction that has begun.
func (g *Generator) InTransaction() bool { return len(g.queue) > 0 }

// data makes a command of the grammar.
func (g *Generator) data() []string {
	s := g.specs[g.rng.IntN(len(g.specs))]
	for g.inTransaction && g.opt.NotQueued[s.name] {
		s = g.specs[g.rng.IntN(len(g.specs))]
	}
	g.name, g.kind = s.name, s.kind
	g.placeKeys(s.name)
	g.numkeys, g.listed = -1, 0
	g.single = keyCount(s.args) == 1 && !g.inTransaction
	g.tied = !g.single && !g.spread && g.opt.Keys != AnySlots
	command, sub, isSub := strings.Cut(s.name, "|")
	args := []string{g.letterCase(command)}
	if isSub {
		args = append(args, g.letterCase(sub))
	}
	if form := forms[s.name]; form != nil {
		g.single, g.tied = false, g.opt.Keys == OneSlot
		return append(args, form(g)...)
	}
	return g.appendAll(args, s.args)
}

func (g *Generator) appendAll(dst []string, args []argument) []string {
	for _, a := range args {
		dst = g.appendArgument(dst, a)
	}
	return dst
}

// appendArgument makes one argument of a tree, or omits it if it is optional.
func (g *Generator) appendArgument(dst []string, a argument) []string {
	times := g.times(a)
	if times > 0 && a.token != "" && a.typ != "pure-token" && !a.multipleToken {
		dst = append(dst, g.letterCase(a.token))
	}
	for range times {
		if a.multipleToken {
			dst = append(dst, g.letterCase(a.token))
		}
		switch a.typ {
		case "oneof":
			dst = g.appendArgument(dst, a.args[g.rng.IntN(len(a.args))])
		case "block":
			dst = g.appendAll(dst, a.args)
		case "pure-token":
			dst = append(dst, g.tokenOf(a))
		default:
			dst = append(dst, g.value(a))
		}
	}
	if a.typ == "key" {
		g.listed = times
	}
	return dst
}

// times is how many times to repeat an argument.
func (g *Generator) times(a argument) int {
	switch {
	case g.numkeys >= 0 && (a.typ == "key" && a.multiple || a.name == "weight"):
		if a.typ != "key" && g.chance(0.6) {
			return 0
		}
		return g.numkeys
	case a.optional && g.chance(0.65):
		return 0
	case a.multiple && a.name == "id" && g.listed > 1:
		return g.listed // XREAD's ids, one for each stream
	case !a.multiple:
		return 1
	case g.chance(0.01):
		return 150 + g.rng.IntN(100)
	}
	return 1 + g.rng.IntN(4)
}

// tokenOf replaces the tokens whose effect is random.
func (g *Generator) tokenOf(a argument) string {
	switch a.token {
	case "*":
		return g.newID()
	case "BYLEX": // random if the members have different scores: see lexKey
		return "BYSCORE"
	}
	return g.letterCase(a.token)
}

// mangle damages some commands.
func (g *Generator) mangle(args []string) []string {
	if !g.chance(0.04) || !mayMangle(args) {
		return args
	}
	at, how := g.rng.IntN(len(args)), g.rng.IntN(4)
	if g.tied || g.inTransaction {
		how = 0 // other damage may turn another argument into a key
	}
	switch how {
	case 0:
		return args[:max(1, at)]
	case 1:
		return append(args, g.junk())
	case 2:
		if at > 0 {
			args[at] = g.junk()
		}
	case 3:
		if at > 0 {
			return slices.Delete(args, at, at+1)
		}
	}
	return args
}

// mayMangle excludes commands that would block for long when damaged, or have a random reply: a
// cursor that the server has not made, or SORT, which does not sort if BY has no "*".
func mayMangle(args []string) bool {
	name := strings.ToUpper(args[0])
	isExcluded := func(arg string) bool { return strings.EqualFold(arg, "BLOCK") || strings.EqualFold(arg, "BY") }
	return name != "SPOP" && !strings.HasSuffix(name, "SCAN") && !slices.ContainsFunc(args, isExcluded) &&
		!strings.HasPrefix(name, "BL") && !strings.HasPrefix(name, "BR") && !strings.HasPrefix(name, "BZ")
}

func (g *Generator) junk() string {
	return g.pick("", "junk", "\x00\r\n\xff", "1.5", "-1", "9223372036854775807", "-9223372036854775808", "1e400", "NX", "COUNT", g.letters(300))
}

func (g *Generator) chance(p float64) bool { return g.rng.Float64() < p }

func (g *Generator) pick(of ...string) string { return of[g.rng.IntN(len(of))] }

func (g *Generator) letterCase(word string) string {
	if g.chance(0.2) {
		return strings.ToLower(word)
	}
	return word
}
