package proxy

import (
	"leash/proxy/resp"
)

// text answers with a text for people. It is a verbatim string in RESP3.
func (s *session) text(text string) bool {
	if s.router.Lane.RESP3 {
		s.scratch = resp.AppendVerbatim(s.scratch[:0], text)
	} else {
		s.scratch = resp.AppendBulk(s.scratch[:0], text)
	}
	return s.answer(s.scratch)
}
