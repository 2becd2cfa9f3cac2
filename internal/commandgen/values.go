package commandgen

import (
	"fmt"
	"strconv"
	"strings"
)

// value makes an argument by its type and its name, because types alone say little.
func (g *Generator) value(a argument) string {
	switch a.typ {
	case "key":
		return g.key(g.kind)
	case "integer":
		return g.integer(a)
	case "double":
		return g.double(a.name)
	case "unix-time":
		return g.unixTime(a.name)
	case "pattern":
		return g.pattern()
	}
	return g.text(a)
}

func (g *Generator) integer(a argument) string {
	switch a.name {
	case "numkeys":
		g.numkeys = 1 + g.rng.IntN(3)
		return strconv.Itoa(g.numkeys)
	case "cursor", "destination-db", "db":
		return "0"
	case "seconds", "milliseconds", "ttl":
		return g.span()
	case "value":
		return g.pick("0", "1", "1", "-7", "250")
	case "bit":
		return g.pick("0", "1", "1", "2")
	case "offset":
		if g.kind == stringKey {
			return strconv.Itoa(g.rng.IntN(300))
		}
	case "min-idle-time":
		return g.pick("0", "0", "36000000")
	case "count", "limit":
		return g.pick("0", "1", "2", "3", "10", "50")
	case "ms":
		return g.pick("0", "5000")
	}
	return strconv.Itoa(g.rng.IntN(24) - 6)
}

// span is a TTL that ends at once, or not within a test.
func (g *Generator) span() string {
	if g.chance(0.1) {
		return g.pick("0", "-1", "-1000")
	}
	return strconv.Itoa(100_000_000 + g.rng.IntN(100)*1000)
}

func (g *Generator) unixTime(name string) string {
	// SET would leave an expired key in place until a command reads it
	if g.name != "SET" && g.chance(0.15) {
		return "1"
	}
	if strings.Contains(name, "milli") {
		return "4102444800000"
	}
	return "4102444800" // 2100-01-01
}

func (g *Generator) double(name string) string {
	switch name {
	case "longitude":
		return g.pick("13.361389", "15.087269", "-73.9", "0", "179.99", "200")
	case "latitude":
		return g.pick("38.115556", "37.502669", "40.7", "0", "-85.05")
	case "radius", "height", "width":
		return g.pick("0", "1", "200", "1000.5", "50000", "-1")
	case "timeout":
		return "0.001"
	case "min":
		return g.pick("-inf", "(1", "0", "-3.5")
	case "max":
		return g.pick("+inf", "(9", "5", "2.25")
	}
	return g.pick("1", "2", "-3", "1.5", "-0.25", "3e5", "7", "inf", "-inf", "nan", "17179869184")
}

func (g *Generator) pattern() string {
	return g.pick("*", "*s*", "{1}*", "*[0-1]", "nothing?", "w?", "\\*")
}

func (g *Generator) text(a argument) string {
	switch a.name {
	case "encoding":
		return g.pick("u8", "i5", "u16", "i64", "u63", "u64")
	case "id", "last-id", "max_deleted_entry_id", "threshold":
		return g.id(a)
	case "start", "end", "stop":
		if g.kind == streamKey {
			return g.pick("-", "+", "0", g.oldID(), "("+g.oldID())
		}
		return g.pick("0", "1", "-1", "-3", "(1", "[w1", "-inf", "+inf", "3")
	case "min":
		return g.pick("-", "[w1", "(w2", "0", "[")
	case "max":
		return g.pick("+", "[w8", "(w7", "-1", "[z")
	case "group", "groupname":
		return g.pick("g1", "g1", "g2", "g3")
	case "consumer", "consumername":
		return g.pick("c1", "c2", "")
	case "min-idle-time":
		return g.pick("0", "0", "0", "36000000")
	case "operation":
		return g.pick("AND", "or", "XOR", "NOT", "NAND")
	case "serialized-value":
		return g.dumps[g.rng.IntN(len(g.dumps))]
	case "member", "member1", "member2", "pivot":
		return g.small()
	case "field":
		return g.small()
	}
	return g.word()
}

// small is one of few words, so that commands find values that others have written.
func (g *Generator) small() string {
	if g.chance(0.3) {
		return strconv.Itoa(g.rng.IntN(12))
	}
	if g.chance(0.05) {
		return g.pick("", "\r\n", "bin\x00\xff", g.letters(80))
	}
	return "w" + strconv.Itoa(g.rng.IntN(9))
}

// word is any value: small ones, numbers, bytes that look like RESP, and sometimes one larger than
// any buffer.
func (g *Generator) word() string {
	switch n := g.rng.IntN(1000); {
	case n < 400:
		return strconv.Itoa(g.rng.IntN(60) - 10)
	case n < 430:
		return "\r\n$5\r\n\x00\xff"
	case n < 450:
		return g.letters(40_000)
	case n < 451:
		return g.letters(600_000)
	}
	return g.small()
}

func (g *Generator) letters(most int) string {
	return strings.Repeat(string(rune('a'+g.rng.IntN(26))), g.rng.IntN(most))
}

// id is a stream id for reading or writing.
func (g *Generator) id(a argument) string {
	switch {
	case a.name == "threshold":
		return g.pick("3", "20", g.oldID())
	case a.multiple:
		return g.pick("0", ">", "$", g.oldID(), g.oldID())
	case g.chance(0.1):
		return g.pick("0", "0-0", "1-1", "x", "5-*")
	}
	return g.newID()
}

// newID is a stream id larger than all earlier ones.
func (g *Generator) newID() string {
	g.seq++
	return fmt.Sprintf("%d-%d", g.seq/3, g.seq%3+1)
}

func (g *Generator) oldID() string {
	n := max(0, g.seq-g.rng.IntN(200))
	return fmt.Sprintf("%d-%d", n/3, n%3+1)
}
