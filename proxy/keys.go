package proxy

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// keySpec says where the keys of a command are among its arguments. Its terms are those of
// https://redis.io/docs/latest/develop/reference/key-specs/: where the search begins, and how keys
// are found from there.
type keySpec struct {
	keyword string // begin behind this word; empty: begin at index
	from    int    // where to start to look for keyword; negative: from the end, backwards
	index   int    // begin at this argument

	keynum   bool // the number of keys is at begin + countAt
	countAt  int
	firstKey int // first key, from begin; only with keynum

	last, step, limit int // a range; last counts from begin, or from the end when negative
}

// first returns the index of the first key, or 0 if args has none by this spec.
func (k keySpec) first(args [][]byte) int {
	begin := k.index
	if k.keyword != "" {
		begin = k.findKeyword(args)
	}
	if begin <= 0 || begin >= len(args) {
		return 0
	}
	if !k.keynum {
		return begin
	}
	if begin+k.countAt >= len(args) {
		return 0
	}
	first := begin + k.firstKey
	if atoi(args[begin+k.countAt]) <= 0 || first >= len(args) {
		return 0
	}
	return first
}

// atoi reads a number of keys as Redis does when it looks for them. Redis uses C's atoi, which
// reads 1.5 as 1. So the command goes to the node with those keys, which reports the wrong number.
// Every other node would answer MOVED.
func atoi(b []byte) int32 {
	b = bytes.TrimLeft(b, " \t\n\v\f\r")
	negative := len(b) > 0 && b[0] == '-'
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		if n > math.MaxInt64/10-1 {
			n = math.MaxInt64 // like strtol; atoi keeps the lower bits of this
			break
		}
		n = 10*n + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return int32(n)
}

func (k keySpec) findKeyword(args [][]byte) int {
	if k.from < 0 {
		for i := len(args) + k.from; i > 0; i-- {
			if isWord(args[i], k.keyword) {
				return i + 1
			}
		}
		return 0
	}
	for i := k.from; i < len(args); i++ {
		if isWord(args[i], k.keyword) {
			return i + 1
		}
	}
	return 0
}

// many reports whether the spec can name more than one key.
func (k keySpec) many() bool { return k.keynum || k.last != 0 }

// parseKeySpec parses a key spec in the format of commands.txt.
func parseKeySpec(s string) (k keySpec, err error) {
	begin, find, _ := strings.Cut(s, ":")
	if word, from, ok := strings.Cut(begin, "@"); ok {
		k.keyword, begin = word, from
	}
	at, err := strconv.Atoi(begin)
	if err != nil {
		return k, fmt.Errorf("key spec %q: %w", s, err)
	}
	if k.keyword != "" {
		k.from = at
	} else {
		k.index = at
	}
	var kind string
	var a, b, c int
	if _, err := fmt.Sscanf(strings.ReplaceAll(find, ":", " "), "%s %d %d %d", &kind, &a, &b, &c); err != nil {
		return k, fmt.Errorf("key spec %q: %w", s, err)
	}
	switch kind {
	case "range":
		k.last, k.step, k.limit = a, b, c
	case "keynum":
		k.keynum, k.countAt, k.firstKey, k.step = true, a, b, c
	default:
		return k, fmt.Errorf("key spec %q: unknown kind", s)
	}
	return k, nil
}

// isWord reports whether an argument is an upper-case ASCII word. As in Redis, the argument may
// have lower-case letters.
func isWord(arg []byte, word string) bool {
	return len(arg) == len(word) && bytes.EqualFold(arg, []byte(word))
}
