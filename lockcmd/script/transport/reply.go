package transport

import (
	"strings"

	"leash/proxy/resp"
)

// decode reads the one reply in text: int64, []int64, or []any with int64 and string. The error is
// a resp.ReplyError, or ErrShape for anything else, which no script answers.
func decode(text []byte) (reply any, err error) {
	if list, rest, ok := resp.CutIntegers[int64](nil, text); ok && len(rest) == 0 { // the usual case
		return list, nil
	}
	reply, _ = resp.Decode(text)
	if refused, is := reply.(resp.ReplyError); is {
		return nil, refused
	}
	_, isInt := reply.(int64)
	if _, kinds := Items(reply); !isInt && kinds == "" {
		return nil, ErrShape
	}
	return reply, nil
}

// Items reads a reply that is a list. kinds has a letter for each item: 'i' for an integer, 's' for
// a text. It is "" for any other reply, and for a list with anything else. Texts are 0 in n.
func Items(reply any) (n []int64, kinds string) {
	switch list := reply.(type) {
	case []int64:
		return list, Ints(len(list))
	case []any:
		n, letters := make([]int64, len(list)), make([]byte, len(list))
		for i, item := range list {
			switch item := item.(type) {
			case int64:
				n[i], letters[i] = item, 'i'
			case string:
				letters[i] = 's'
			default:
				return nil, ""
			}
		}
		return n, string(letters)
	}
	return nil, ""
}

// Ints are the kinds of a list of n integers.
func Ints(n int) string {
	const some = "iiiiiiii"
	if n <= len(some) {
		return some[:n]
	}
	return strings.Repeat("i", n)
}

// Int reads a reply that is an integer.
func Int(reply any) (n int64, ok bool) {
	n, ok = reply.(int64)
	return n, ok
}

// TextAt is the text at index i of a list, "" if there is none.
func TextAt(reply any, i int) string {
	items, _ := reply.([]any)
	if i >= len(items) {
		return ""
	}
	text, _ := items[i].(string)
	return text
}
