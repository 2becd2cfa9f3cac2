package transport

import (
	"bytes"
	"strings"

	"leash/proxy/resp"
)

// ReplyError is an error that Redis answered with.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// decode reads the one reply in text: int64, []int64, or []any with int64 and string. The error is
// a ReplyError, or ErrShape for anything else, which no script answers.
func decode(text []byte) (reply any, err error) {
	if list, rest, ok := resp.CutIntegers[int64](nil, text); ok && len(rest) == 0 { // the usual case
		return list, nil
	}
	scan := resp.Scanner{RESP2: true}
	if used, done, err := scan.Scan(text); err != nil || !done || used < len(text) {
		return nil, ErrShape
	}
	if text[0] == '-' {
		return nil, ReplyError(bytes.TrimSuffix(text[1:], []byte("\r\n")))
	}
	if n, ok := resp.Int(text); ok {
		return n, nil
	}
	elements, ok := resp.Elements(text)
	if !ok {
		return nil, ErrShape
	}
	items := make([]any, len(elements))
	for i, element := range elements {
		if n, ok := resp.Int(element); ok {
			items[i] = n
		} else if text, ok := resp.Text(element); ok {
			items[i] = string(text)
		} else {
			return nil, ErrShape
		}
	}
	return items, nil
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
