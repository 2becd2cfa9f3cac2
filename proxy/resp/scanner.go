package resp

import (
	"bytes"
	"errors"
)

// ErrFrame says that bytes are no RESP reply. A connection that sent them
// cannot be used any more: where the next reply begins is unknown.
var ErrFrame = errors.New("resp: malformed reply")

// Scanner finds where a reply ends, RESP2 or RESP3, however deep it nests,
// without decoding or keeping anything of it. The zero value stands before a
// reply's first byte.
type Scanner struct {
	left int64 // values still missing of the reply under way; 0 between replies
	skip int64 // bytes of a bulk string still to come, its CRLF included

	state  scanState
	mark   byte  // type of the header being read
	num    int64 // its number so far
	digits int
	neg    bool
}

type scanState uint8

const (
	scanMark   scanState = iota // a type byte comes next
	scanNumber                  // in the number of a header
	scanLine                    // in a line whose content does not matter
	scanLF                      // behind the CR of a header
	scanSkip                    // in a bulk string
)

// Scan goes on through p, which follows what it was given before. n is how
// many bytes of p belong to the reply under way; done says that they end it.
// When done is false n is len(p).
func (s *Scanner) Scan(p []byte) (n int, done bool, err error) {
	for i := 0; i < len(p); {
		switch s.state {
		case scanMark:
			if err := s.begin(p[i]); err != nil {
				return i, false, err
			}
			i++
		case scanLine:
			j := bytes.IndexByte(p[i:], '\n')
			if j < 0 {
				return len(p), false, nil
			}
			i += j + 1
			s.state = scanMark
			if s.left == 0 {
				return i, true, nil
			}
		case scanNumber:
			if err := s.digit(p[i]); err != nil {
				return i, false, err
			}
			i++
		case scanLF:
			if p[i] != '\n' {
				return i, false, ErrFrame
			}
			i++
			if err := s.header(); err != nil {
				return i, false, err
			}
			if s.state == scanMark && s.left == 0 {
				return i, true, nil
			}
		case scanSkip:
			if rest := int64(len(p) - i); rest < s.skip {
				s.skip -= rest
				return len(p), false, nil
			}
			i += int(s.skip)
			s.state = scanMark
			if s.left == 0 {
				return i, true, nil
			}
		}
	}
	return len(p), false, nil
}

// begin takes the type byte of a value.
func (s *Scanner) begin(mark byte) error {
	if s.left == 0 {
		s.left = 1
	}
	s.mark = mark
	switch mark {
	case '+', '-', ':', '_', '#', ',', '(':
		s.left--
		s.state = scanLine
	case '$', '=', '!', '*', '~', '>', '%', '|':
		s.num, s.digits, s.neg = 0, 0, false
		s.state = scanNumber
	default:
		return ErrFrame
	}
	return nil
}

func (s *Scanner) digit(c byte) error {
	switch {
	case '0' <= c && c <= '9' && s.digits < 12:
		s.num = s.num*10 + int64(c-'0')
		s.digits++
	case c == '-' && s.digits == 0 && !s.neg:
		s.neg = true
	case c == '\r' && s.digits > 0:
		s.state = scanLF
	default:
		return ErrFrame
	}
	return nil
}

// header acts on a complete header: "$-1" and "*-1" are the nulls of RESP2.
func (s *Scanner) header() error {
	s.state = scanMark
	s.left--
	if s.neg {
		if s.num != 1 || s.mark != '$' && s.mark != '*' {
			return ErrFrame
		}
		return nil
	}
	switch s.mark {
	case '$', '=', '!':
		s.skip = s.num + 2
		s.state = scanSkip
	case '%':
		s.left += 2 * s.num
	case '|': // attributes stand before the value they speak of
		s.left += 2*s.num + 1
	default:
		s.left += s.num
	}
	return nil
}
