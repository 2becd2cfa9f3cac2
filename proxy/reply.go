package proxy

import (
	"bytes"
	"strconv"

	"leash/proxy/resp"
)

// text answers with a text for people. It is a verbatim string in RESP3.
func (s *session) text(text string) bool {
	if s.lane.RESP3 {
		s.scratch = resp.AppendVerbatim(s.scratch[:0], text)
	} else {
		s.scratch = resp.AppendBulk(s.scratch[:0], text)
	}
	return s.answer(s.scratch)
}

// elements returns the elements of all parts' arrays, in order.
func (f *fanout) elements() (all [][]byte, ok bool) {
	for _, p := range f.parts {
		more, ok := elements(p.whole())
		if !ok {
			return nil, false
		}
		all = append(all, more...)
	}
	return all, true
}

// elements returns the elements of an array reply. For a map, they are name, value, name and so on.
func elements(reply []byte) (all [][]byte, ok bool) {
	isMap := len(reply) > 0 && reply[0] == '%'
	if isMap {
		reply = append([]byte{'*'}, reply[1:]...)
	}
	rest, n, ok := arrayHeader(reply)
	if !ok || n < 0 {
		return nil, false
	}
	if isMap {
		n *= 2
	}
	for range n {
		var scan resp.Scanner
		used, done, err := scan.Scan(rest)
		if err != nil || !done {
			return nil, false
		}
		all, rest = append(all, rest[:used]), rest[used:]
	}
	return all, true
}

// joined makes an array reply from its elements.
func joined(elements [][]byte) []byte {
	return append(resp.AppendArray(nil, len(elements)), bytes.Join(elements, nil)...)
}

// value returns the content of a scalar reply: an integer, a double, a simple or a bulk string.
func value(element []byte) []byte {
	if len(element) < 3 {
		return nil
	}
	line, rest, _ := bytes.Cut(element[1:], []byte("\r\n"))
	if element[0] == '$' {
		return bytes.TrimSuffix(rest, []byte("\r\n"))
	}
	return line
}

func decimal(b []byte) (n float64, ok bool) {
	n, err := strconv.ParseFloat(string(b), 64)
	return n, err == nil
}

// appendSet appends a set of simple strings. In RESP2 it is an array.
func appendSet(b []byte, resp3 bool, members ...string) []byte {
	b = appendSetHeader(b, resp3, len(members))
	for _, m := range members {
		b = resp.AppendStatus(b, m)
	}
	return b
}

func appendSetHeader(b []byte, resp3 bool, n int) []byte {
	start := len(b)
	b = resp.AppendArray(b, n)
	if resp3 {
		b[start] = '~'
	}
	return b
}

// appendPairs appends the header of a map with n pairs. In RESP2 it is the header of an array.
func appendPairs(b []byte, resp3 bool, n int) []byte {
	if resp3 {
		return resp.AppendMap(b, n)
	}
	return resp.AppendArray(b, 2*n)
}
