package proxy

import (
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
