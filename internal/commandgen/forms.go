package commandgen

import "strconv"

// forms make the arguments of commands whose tree says too little, or whose reply can be random.
var forms = map[string]func(*Generator) []string{
	"SORT":    func(g *Generator) []string { return g.sort(true) },
	"SORT_RO": func(g *Generator) []string { return g.sort(false) },
	// All members of a set or none: the choice of fewer is random.
	"SPOP": func(g *Generator) []string { return []string{g.key(setKey), g.pick("0", "100000", "-1")} },
	// Each server scans a hash table in its own order, so scan all of it.
	"SSCAN": func(g *Generator) []string { return g.scan(setKey) },
	"HSCAN": func(g *Generator) []string { return g.scan(hashKey) },
	"ZSCAN": func(g *Generator) []string { return g.scan(sortedSetKey) },

	"ZLEXCOUNT": func(g *Generator) []string { return []string{g.key(lexKey), g.lexMin(), g.lexMax()} },
	"ZRANGEBYLEX": func(g *Generator) []string {
		return append([]string{g.key(lexKey), g.lexMin(), g.lexMax()}, g.limit()...)
	},
	"ZREVRANGEBYLEX": func(g *Generator) []string {
		return append([]string{g.key(lexKey), g.lexMax(), g.lexMin()}, g.limit()...)
	},
	"ZREMRANGEBYLEX": func(g *Generator) []string { return []string{g.key(lexKey), g.lexMin(), g.lexMax()} },

	"COPY":   (*Generator).copyTo,
	"MOVE":   func(g *Generator) []string { return []string{g.key(anyKey), g.pick("0", "1", "2", "99")} },
	"XSETID": (*Generator).xsetID,
	"XINFO|STREAM": func(g *Generator) []string {
		args := []string{g.key(streamKey)}
		if g.chance(0.5) {
			args = append(args, "FULL", "COUNT", strconv.Itoa(g.rng.IntN(4)))
		}
		return args
	},
	"BLPOP":      func(g *Generator) []string { return append(g.keys(listKey), g.timeout()) },
	"BRPOP":      func(g *Generator) []string { return append(g.keys(listKey), g.timeout()) },
	"BZPOPMIN":   func(g *Generator) []string { return append(g.keys(sortedSetKey), g.timeout()) },
	"BZPOPMAX":   func(g *Generator) []string { return append(g.keys(sortedSetKey), g.timeout()) },
	"XREAD":      func(g *Generator) []string { return g.readStreams(nil) },
	"XREADGROUP": func(g *Generator) []string { return g.readStreams([]string{"GROUP", g.pick("g1", "g2"), "c1"}) },

	"EVAL":       func(g *Generator) []string { return g.call(g.pick(scripts...)) },
	"EVAL_RO":    func(g *Generator) []string { return g.call(g.pick(scripts...)) },
	"EVALSHA":    func(g *Generator) []string { return g.call(sha(g.pick(scripts...))) },
	"EVALSHA_RO": func(g *Generator) []string { return g.call(sha(g.pick(scripts...))) },
	"FCALL":      func(g *Generator) []string { return g.call(g.function()) },
	"FCALL_RO":   func(g *Generator) []string { return g.call(g.function()) },

	"SCRIPT|LOAD":   func(g *Generator) []string { return []string{g.pick(append(scripts, "not Lua")...)} },
	"SCRIPT|EXISTS": func(g *Generator) []string { return []string{sha(g.pick(scripts...)), "none", sha(g.pick(scripts...))} },
	"SCRIPT|FLUSH":  func(g *Generator) []string { return []string{g.pick("SYNC", "ASYNC", "NOW")} },

	"FUNCTION|LOAD":   (*Generator).loadLibrary,
	"FUNCTION|DELETE": func(g *Generator) []string { return []string{g.library()} },
	"FUNCTION|RESTORE": func(g *Generator) []string {
		return []string{g.pick(g.lib, "junk"), g.pick("REPLACE", "APPEND", "FLUSH")}
	},
	"FUNCTION|LIST":  func(g *Generator) []string { return []string{"LIBRARYNAME", g.library(), "WITHCODE"} },
	"FUNCTION|FLUSH": func(g *Generator) []string { return []string{g.pick("SYNC", "ASYNC", "NOW")} },
}

func (g *Generator) keys(k kind) (keys []string) {
	for range 1 + g.rng.IntN(3) {
		keys = append(keys, g.key(k))
	}
	return keys
}

func (g *Generator) timeout() string { return g.pick("0.001", "0.001", "-1", "soon") }

// sort omits what is random with sets: BY a pattern with ALPHA.
func (g *Generator) sort(store bool) []string {
	args := []string{g.key(kind(g.pick("l", "e", "z", "l")[0]))}
	if g.chance(0.4) {
		args = append(args, "LIMIT", strconv.Itoa(g.rng.IntN(3)), strconv.Itoa(g.rng.IntN(6)))
	}
	if g.chance(0.3) {
		args = append(args, g.pick("ASC", "DESC"))
	}
	switch {
	case g.opt.Keys == AnySlots && g.chance(0.3):
		args = append(args, "BY", g.pick("{1}s*", "{2}h*->w1"))
	case g.chance(0.6):
		args = append(args, "ALPHA")
	}
	if g.opt.Keys == AnySlots && g.chance(0.3) {
		args = append(args, "GET", g.pick("{1}s*", "#", "{2}h*->w1"), "GET", "#")
	}
	if store && g.chance(0.4) {
		args = append(args, "STORE", g.key(listKey))
	}
	return args
}

func (g *Generator) scan(k kind) []string {
	args := []string{g.key(k), "0", "COUNT", "100000"}
	if g.chance(0.5) {
		args = append(args, "MATCH", g.pick("*", "w*", "*1*"))
	}
	return args
}

func (g *Generator) lexMin() string { return g.pick("-", "[w1", "(w2", "[3", "0", "[") }
func (g *Generator) lexMax() string { return g.pick("+", "[w8", "(w7", "-1", "[z") }

func (g *Generator) limit() []string {
	if g.chance(0.5) {
		return nil
	}
	return []string{"LIMIT", strconv.Itoa(g.rng.IntN(3)), strconv.Itoa(g.rng.IntN(6) - 1)}
}

// lexical makes the commands that write and read a sorted set whose members have one score.
func (g *Generator) lexical() []string {
	if g.chance(0.5) {
		return []string{"ZADD", g.key(lexKey), "0", g.small(), "0", g.small(), "0", g.small()}
	}
	args := []string{"ZRANGE"}
	if g.chance(0.4) {
		args = []string{"ZRANGESTORE", g.key(listKey)}
	}
	return append(append(args, g.key(lexKey), g.lexMin(), g.lexMax(), "BYLEX"), g.limit()...)
}

func (g *Generator) copyTo() []string {
	args := []string{g.key(anyKey), g.key(anyKey)}
	if g.opt.Databases > 0 && g.chance(0.3) {
		args = append(args, "DB", strconv.Itoa(g.rng.IntN(g.opt.Databases+1)))
	}
	if g.chance(0.5) {
		args = append(args, "REPLACE")
	}
	return args
}

func (g *Generator) xsetID() []string {
	args := []string{g.key(streamKey), g.newID()}
	if g.chance(0.5) {
		args = append(args, "ENTRIESADDED", g.pick("5", "500", "-1"), "MAXDELETEDID", g.oldID())
	}
	return args
}

func (g *Generator) readStreams(args []string) []string {
	isGroup := args != nil
	if g.chance(0.4) {
		args = append(args, "COUNT", g.pick("0", "1", "3"))
	}
	if !g.opt.Without["BLPOP"] && g.chance(0.2) {
		args = append(args, "BLOCK", "1")
	}
	if isGroup && g.chance(0.2) {
		args = append(args, "NOACK")
	}
	keys := g.keys(streamKey)
	if isGroup && g.chance(0.5) {
		keys = keys[:1] // each stream needs the group
	}
	args = append(append(args, "STREAMS"), keys...)
	for range keys {
		args = append(args, g.pick("0", ">", "$", g.oldID(), g.oldID()))
	}
	return args
}
