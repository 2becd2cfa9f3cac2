package commandgen

import "strconv"

// otherCommand makes a command that is not a data command of the grammar.
func (g *Generator) otherCommand() []string {
	g.placeKeys("")
	g.single = false
	makers := []func() []string{
		func() []string { return []string{"PING"} },
		func() []string { return []string{"PING", g.word()} },
		func() []string { return []string{"ECHO", g.word()} },
		func() []string { return []string{"NOSUCH", g.key(anyKey), g.word()} },
		func() []string { return []string{"OBJECT", "NOPE", g.key(anyKey)} },
		func() []string { return []string{"XGROUP", "NOPE"} },
		func() []string { return []string{"DBSIZE"} },
		func() []string { return []string{"MEMORY", "USAGE", g.key(anyKey), "SAMPLES", "0"} },
		func() []string { return []string{g.pick("FLUSHALL", "FLUSHDB"), g.pick("SYNC", "ASYNC", "NOW", "NOW")} },
		func() []string { return []string{"KEYS", g.pattern()} },
		g.lexical, g.lexical, g.lexical,
		g.createGroup, g.createGroup, g.createGroup,
		g.selectDB,
		g.swapDB,
	}
	args := makers[g.rng.IntN(len(makers))]()
	if g.opt.Without[args[0]] {
		return []string{"ECHO", args[0]}
	}
	return args
}

// createGroup makes the consumer group that most commands of streams need.
func (g *Generator) createGroup() []string {
	return []string{"XGROUP", "CREATE", g.key(streamKey), g.pick("g1", "g1", "g2"), g.pick("0", "$", g.oldID()), "MKSTREAM"}
}

func (g *Generator) selectDB() []string {
	if g.opt.Databases == 0 {
		return []string{"PING", "no databases"}
	}
	return []string{"SELECT", g.pick(strconv.Itoa(g.rng.IntN(g.opt.Databases)), "0", "-1", "99", "x")}
}

func (g *Generator) swapDB() []string {
	if g.opt.Databases == 0 {
		return []string{"PING", "no databases"}
	}
	return []string{"SWAPDB", strconv.Itoa(g.rng.IntN(g.opt.Databases)), g.pick("0", "1", "99")}
}

// transaction makes MULTI or WATCH and queues the rest up to EXEC or DISCARD.
func (g *Generator) transaction() []string {
	g.placeKeys("")
	g.inTransaction, g.single, g.spread = true, false, false
	defer func() { g.inTransaction = false }()
	var all [][]string
	if g.chance(0.4) {
		all = append(all, append([]string{"WATCH"}, g.keys(anyKey)...))
		if g.chance(0.5) {
			// by the same session: EXEC fails if the command changed a watched key
			all = append(all, g.data())
		}
		if g.chance(0.2) {
			all = append(all, []string{"UNWATCH"})
		}
	}
	all = append(all, []string{"MULTI"})
	for range g.rng.IntN(8) {
		if g.chance(0.05) {
			all = append(all, [][]string{{"MULTI"}, {"WATCH", g.key(anyKey)}, {"NOSUCH"}, {"PING"}, {"ECHO", "x"}, {"GET"}}[g.rng.IntN(6)])
			continue
		}
		all = append(all, g.mangle(g.data()))
	}
	all = append(all, []string{g.pick("EXEC", "EXEC", "EXEC", "DISCARD")})
	if g.chance(0.1) {
		all = append(all, []string{g.pick("EXEC", "DISCARD", "UNWATCH")})
	}
	g.queue = all[1:]
	return all[0]
}
