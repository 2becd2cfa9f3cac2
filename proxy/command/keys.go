package command

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"leash/proxy/resp"
)

// KeySpec says where the keys of a command are among its arguments. Its terms are those of
// https://redis.io/docs/latest/develop/reference/key-specs/: where the search begins, and how keys
// are found from there.
type KeySpec struct {
	Keyword string // begin behind this word; empty: begin at index
	From    int    // where to start to look for keyword; negative: from the end, backwards
	Index   int    // begin at this argument

	KeyNum   bool // the number of keys is at begin + countAt
	CountAt  int
	FirstKey int // first key, from begin; only with keynum

	Last, Step int // a range; last counts from begin, or from the end when negative
}

// first returns the index of the first key, or 0 if args has none by this spec.
func (k KeySpec) first(args [][]byte) int {
	begin := k.Index
	if k.Keyword != "" {
		begin = k.findKeyword(args)
	}
	if begin <= 0 || begin >= len(args) {
		return 0
	}
	if !k.KeyNum {
		return begin
	}
	if begin+k.CountAt >= len(args) {
		return 0
	}
	first := begin + k.FirstKey
	if atoi(args[begin+k.CountAt]) <= 0 || first >= len(args) {
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

func (k KeySpec) findKeyword(args [][]byte) int {
	if k.From < 0 {
		for i := len(args) + k.From; i > 0; i-- {
			if resp.IsWord(args[i], k.Keyword) {
				return i + 1
			}
		}
		return 0
	}
	for i := k.From; i < len(args); i++ {
		if resp.IsWord(args[i], k.Keyword) {
			return i + 1
		}
	}
	return 0
}

// many reports whether the spec can name more than one key.
func (k KeySpec) many() bool { return k.KeyNum || k.Last != 0 }

// parseKeySpec parses a key spec in the format of commands.txt.
func parseKeySpec(s string) (k KeySpec, err error) {
	begin, find, _ := strings.Cut(s, ":")
	if word, from, ok := strings.Cut(begin, "@"); ok {
		k.Keyword, begin = word, from
	}
	at, err := strconv.Atoi(begin)
	if err != nil {
		return k, fmt.Errorf("key spec %q: %w", s, err)
	}
	if k.Keyword != "" {
		k.From = at
	} else {
		k.Index = at
	}
	kind, numbers, _ := strings.Cut(find, ":")
	numbers = strings.ReplaceAll(numbers, ":", " ")
	switch kind {
	case "range":
		_, err = fmt.Sscan(numbers, &k.Last, &k.Step)
	case "keynum":
		k.KeyNum = true
		_, err = fmt.Sscan(numbers, &k.CountAt, &k.FirstKey, &k.Step)
	default:
		return k, fmt.Errorf("key spec %q: unknown kind", s)
	}
	if err != nil {
		return k, fmt.Errorf("key spec %q: %w", s, err)
	}
	return k, nil
}
