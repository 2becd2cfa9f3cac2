package commandgen

import "strconv"

// kind is the type of a key, a letter of its name. So most commands get a value of the type that
// they need.
type kind byte

const (
	stringKey      kind = 's'
	hyperLogLogKey kind = 'p'
	geoKey         kind = 'g'
	hashKey        kind = 'h'
	listKey        kind = 'l'
	setKey         kind = 'e'
	sortedSetKey   kind = 'z'
	streamKey      kind = 'x'
	anyKey         kind = '*'

	// lexKey is a sorted set whose members all have one score. Only then is the result of the
	// commands by lexical range not random. No other command uses it.
	lexKey kind = 'y'
)

const kinds = "spghlezx"

// KeyRule says which slots the keys of one command may have.
type KeyRule uint8

const (
	// AnySlots is for servers that accept any keys together, or that both reply CROSSSLOT.
	AnySlots KeyRule = iota
	// OneSlot gives all keys of a command, and of a transaction, one hash tag, except in the
	// commands that Leash splits by slot.
	OneSlot
	// OneSlotIfSplit gives one hash tag to the commands that Leash splits, and any to the others.
	OneSlotIfSplit
)

const (
	tags        = 4
	keysPerKind = 3
)

// key makes the name of a key of the current command.
func (g *Generator) key(k kind) string {
	if g.single && g.chance(0.03) {
		return g.pick("", "bin\x00\r\n\xff", g.letters(3000))
	}
	if k == anyKey || k != lexKey && g.chance(0.06) {
		k = kind(kinds[g.rng.IntN(len(kinds))])
	}
	return "{" + g.keyTag() + "}" + string(rune(k)) + strconv.Itoa(g.rng.IntN(keysPerKind))
}

func (g *Generator) keyTag() string {
	if g.spread && g.chance(0.3) {
		return strconv.Itoa(g.rng.IntN(tags))
	}
	return g.tag
}

// placeKeys chooses the hash tags of the next command's keys.
func (g *Generator) placeKeys(name string) {
	if !g.inTransaction {
		g.tag = strconv.Itoa(g.rng.IntN(tags))
	}
	switch g.opt.Keys {
	case AnySlots:
		g.spread = true
	case OneSlot:
		g.spread = split[name]
	case OneSlotIfSplit:
		g.spread = !split[name]
	}
	g.spread = g.spread && !g.inTransaction
}

// split are the commands that Leash divides by slot.
var split = map[string]bool{"MGET": true, "MSET": true, "DEL": true, "UNLINK": true, "EXISTS": true, "TOUCH": true}

// keyCount is the number of keys that an argument tree has: 2 for more than one.
func keyCount(args []argument) (n int) {
	for _, a := range args {
		one := keyCount(a.args)
		if a.typ == "key" || a.typ == "pattern" {
			one++
		}
		if a.multiple {
			one *= 2
		}
		n += one
	}
	return min(n, 2)
}
