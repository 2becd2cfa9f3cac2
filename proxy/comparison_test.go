package proxy_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// loosely lists the commands whose replies may differ between two servers with the same history,
// and which part must still be equal. Errors are always compared exactly.
var loosely = []struct {
	reason   string
	equal    func(redis, leash frame) bool
	commands string
}{
	{"a hash table has no order, as each server seeds it by chance", sameElements(1),
		"SMEMBERS SINTER SUNION SDIFF SPOP HKEYS HVALS KEYS"},
	{"the same, by field and value", sameElements(2), "HGETALL"},
	{"the same, behind a cursor", sameScan(1), "SSCAN"},
	{"the same, behind a cursor, by field and value", sameScan(2), "HSCAN ZSCAN"},
	{"the same, also within a library", sameInAnyOrder, "FUNCTION|LIST"},
	{"picked by chance", sameCount, "SRANDMEMBER HRANDFIELD ZRANDMEMBER RANDOMKEY"},
	{"has times, which are a little later on the other server", aboutEqual,
		"TTL PTTL EXPIRETIME PEXPIRETIME XPENDING XINFO|CONSUMERS XINFO|STREAM"},
	{"holds hash tables in their order", sameKind, "DUMP FUNCTION|DUMP"},
	{"depends on how the request came in pieces", sameKind, "MEMORY|USAGE"},
	{"of a small integer it is that of an object which all keys of a server share", sameKind, "OBJECT|IDLETIME"},
}

var loose = func() map[string]func(redis, leash frame) bool {
	m := map[string]func(redis, leash frame) bool{}
	for _, l := range loosely {
		for _, name := range strings.Fields(l.commands) {
			m[name] = l.equal
		}
	}
	return m
}()

// comparison compares the replies of one connection. It follows transactions, because EXEC carries
// the replies of the queued commands.
type comparison struct {
	multi  bool
	queued [][]string
}

// equal compares the replies to the next command.
func (c *comparison) equal(args []string, redis, leash string) bool {
	switch name := strings.ToUpper(args[0]); {
	case redis == "+QUEUED\r\n":
		c.queued = append(c.queued, args)
	case name == "MULTI" && redis == "+OK\r\n":
		c.multi, c.queued = true, nil
	case c.multi && (name == "EXEC" || name == "DISCARD"):
		c.multi = false
		return redis == leash || name == "EXEC" && c.equalExec(redis, leash)
	}
	return redis == leash || equalReplies(args, parseFrame(redis), parseFrame(leash))
}

func (c *comparison) equalExec(redis, leash string) bool {
	r, l := parseFrame(redis), parseFrame(leash)
	if !sameCount(r, l) || len(r.elems) != len(c.queued) {
		return false
	}
	for i, args := range c.queued {
		if r.elems[i].raw != l.elems[i].raw && !equalReplies(args, r.elems[i], l.elems[i]) {
			return false
		}
	}
	return true
}

func equalReplies(args []string, redis, leash frame) bool {
	equal := loose[strings.ToUpper(args[0])]
	if equal == nil && len(args) > 1 {
		equal = loose[strings.ToUpper(args[0]+"|"+args[1])]
	}
	return equal != nil && redis.kind != '-' && leash.kind != '-' && equal(redis, leash)
}

func sameKind(redis, leash frame) bool {
	return redis.kind == leash.kind && redis.null() == leash.null()
}

func sameCount(redis, leash frame) bool {
	return sameKind(redis, leash) && len(redis.elems) == len(leash.elems)
}

// sameElements compares groups of elements in any order.
func sameElements(group int) func(redis, leash frame) bool {
	return func(redis, leash frame) bool {
		return sameCount(redis, leash) && slices.Equal(redis.sorted(group), leash.sorted(group))
	}
}

func sameScan(group int) func(redis, leash frame) bool {
	return func(redis, leash frame) bool {
		return len(redis.elems) == 2 && len(leash.elems) == 2 && redis.elems[0].raw == leash.elems[0].raw &&
			sameElements(group)(redis.elems[1], leash.elems[1])
	}
}

// sameInAnyOrder compares nested replies without regard to the order of elements.
func sameInAnyOrder(redis, leash frame) bool { return redis.ordered() == leash.ordered() }

// aboutEqual allows a difference of five between integers, for times in seconds or milliseconds.
func aboutEqual(redis, leash frame) bool {
	if !sameCount(redis, leash) {
		return false
	}
	if redis.kind == ':' {
		r, _ := strconv.ParseInt(redis.text, 10, 64)
		l, _ := strconv.ParseInt(leash.text, 10, 64)
		return r-l <= 5000 && l-r <= 5000 && (r < 0) == (l < 0)
	}
	for i := range redis.elems {
		if !aboutEqual(redis.elems[i], leash.elems[i]) {
			return false
		}
	}
	return len(redis.elems) > 0 || redis.raw == leash.raw
}

// frame is a parsed reply.
type frame struct {
	kind  byte
	raw   string
	text  string // of what has no elements, without the line end
	elems []frame
}

func (f frame) null() bool {
	return f.kind == '_' || f.elems == nil && f.text == "" && strings.HasSuffix(f.raw, "-1\r\n") && len(f.raw) == 5
}

// sorted returns the bytes of groups of elements, in sorted order.
func (f frame) sorted(group int) (all []string) {
	for chunk := range slices.Chunk(f.elems, group) {
		var b strings.Builder
		for _, e := range chunk {
			b.WriteString(e.raw)
		}
		all = append(all, b.String())
	}
	slices.Sort(all)
	return all
}

// ordered writes the frame with the elements of each level sorted.
func (f frame) ordered() string {
	if f.elems == nil {
		return f.raw
	}
	var elems []string
	for _, e := range f.elems {
		elems = append(elems, e.ordered())
	}
	slices.Sort(elems)
	return fmt.Sprintf("%c%q", f.kind, elems)
}

// parseFrame parses the result of redistest.Client.Read, which is whole and well-formed.
func parseFrame(raw string) frame {
	f, _ := nextFrame(raw)
	return f
}

func nextFrame(raw string) (f frame, rest string) {
	line, rest, ok := strings.Cut(raw, "\r\n")
	if !ok || line == "" {
		return frame{raw: raw}, ""
	}
	f.kind, f.text = line[0], line[1:]
	n, _ := strconv.Atoi(f.text)
	switch f.kind {
	case '$', '=', '!':
		f.text = ""
		if n >= 0 && len(rest) >= n+2 {
			f.text, rest = rest[:n], rest[n+2:]
		}
	case '*', '~', '>', '%', '|':
		f.text = ""
		if f.kind == '%' || f.kind == '|' {
			n *= 2
		}
		for range n {
			var e frame
			e, rest = nextFrame(rest)
			f.elems = append(f.elems, e)
		}
	}
	f.raw = raw[:len(raw)-len(rest)]
	return f, rest
}
