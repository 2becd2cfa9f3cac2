package resp

import (
	"bytes"
	"slices"
	"strings"
)

// CutHeader removes the header of a list, whose type must be one of marks. n is the number in the
// header, never negative.
func CutHeader(reply []byte, marks string) (rest []byte, n int, ok bool) {
	line, rest, ok := bytes.Cut(reply, []byte(asciiCRLF))
	if !ok || len(line) < 2 || strings.IndexByte(marks, line[0]) < 0 {
		return nil, 0, false
	}
	number, ok := ParseInt(line[1:])
	return rest, int(number), ok && number >= 0
}

// Cut removes the first of several replies. ok is false if it is not complete or invalid.
func Cut(replies []byte) (first, rest []byte, ok bool) {
	var scan Scanner
	n, done, err := scan.Scan(replies)
	return replies[:n], replies[n:], done && err == nil
}

// Elements returns the elements of an array. For a map, they are name, value, name and so on.
func Elements(reply []byte) (all [][]byte, ok bool) {
	rest, n, ok := CutHeader(reply, "*%")
	if !ok || n > len(rest) { // then the next line cannot overflow
		return nil, false
	}
	if reply[0] == '%' {
		n *= 2
	}
	for range n {
		var element []byte
		if element, rest, ok = Cut(rest); !ok {
			return nil, false
		}
		all = append(all, element)
	}
	return all, true
}

// CutIntegers removes an array of integers from the start of text and appends the integers to dst.
// ok is false if text begins with anything else.
func CutIntegers[N ~int64](dst []N, text []byte) (list []N, rest []byte, ok bool) {
	rest, n, ok := CutHeader(text, "*")
	if !ok || n > len(rest)/len(":1\r\n") {
		return dst, text, false
	}
	dst = slices.Grow(dst, n)
	for range n {
		if string(rest[:min(4, len(rest))]) == ":1\r\n" { // the usual reply about a renewal
			dst, rest = append(dst, 1), rest[4:]
			continue
		}
		line, after, found := bytes.Cut(rest, []byte(asciiCRLF))
		if !found || len(line) < 2 || line[0] != integerMark {
			return dst, text, false
		}
		number, ok := ParseInt(line[1:])
		if !ok {
			return dst, text, false
		}
		dst, rest = append(dst, N(number)), after
	}
	return dst, rest, true
}

// Array makes an array of its elements.
func Array(elements [][]byte) []byte {
	return append(AppendArray(nil, len(elements)), bytes.Join(elements, nil)...)
}

// Int returns the number in an integer reply.
func Int(reply []byte) (int64, bool) {
	if len(reply) < 4 || reply[0] != integerMark {
		return 0, false
	}
	return ParseInt(reply[1 : len(reply)-2])
}

// Text returns the text of a bulk string or of a verbatim string of plain text.
func Text(reply []byte) (text []byte, ok bool) {
	i := bytes.IndexByte(reply, '\n')
	if i < 0 || reply[0] != bulkMark && reply[0] != '=' || len(reply) < i+3 {
		return nil, false
	}
	text = reply[i+1 : len(reply)-2]
	if reply[0] == '=' {
		text = bytes.TrimPrefix(text, []byte(plainText))
	}
	return text, true
}
