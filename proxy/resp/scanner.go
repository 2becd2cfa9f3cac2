package resp

import (
	"bytes"
	"errors"
	"math"
)

// ErrFrame means that bytes are no RESP reply. The connection cannot be used any more, because the
// start of the next reply is unknown.
var ErrFrame = errors.New("resp: malformed reply")

// Limits of one reply. No server sends more. Nothing is allocated for announced sizes. The limits
// prevent overflows, and an endless wait for the rest of a reply.
const (
	maxReplyBulk  = 4 << 30 // bytes of a bulk string, or of a line
	maxReplyItems = 1 << 32 // values that are still missing in a reply
)

// Scanner finds where a RESP2 or RESP3 reply ends, at any depth of nesting, without decoding or
// keeping it. It checks what one pass can check: types, numbers, and that every line and every bulk
// string ends with CRLF. The zero value is ready for a reply's first byte.
type Scanner struct {
	// RESP2 refuses the types that RESP3 added.
	RESP2 bool

	left int64 // values still missing in the current reply; 0 between replies
	skip int64 // bytes still missing in a bulk string, with its CRLF

	state  scanState
	mark   byte   // type of the header being read
	cr     bool   // the last byte of the line so far is a CR
	num    uint64 // number in the header so far; in a line, its bytes so far
	digits int
	neg    bool
}

type scanState uint8

const (
	scanMark   scanState = iota // a type byte comes next
	scanNumber                  // in the number of a header, or an integer
	scanBool                    // before the letter of a boolean
	scanCR                      // before the CR of a null or boolean
	scanLine                    // in a line whose content does not matter
	scanLF                      // after the CR of a header
	scanSkip                    // in a bulk string
)

// Scan continues with p, which follows the earlier bytes. n is how many bytes of p belong to the
// current reply. done reports whether they end it. If done is false, n is len(p).
func (s *Scanner) Scan(p []byte) (n int, done bool, err error) {
	for i := 0; i < len(p); {
		switch s.state {
		case scanMark:
			if err := s.begin(p[i]); err != nil {
				return i, false, err
			}
			i++
			continue
		case scanNumber:
			took, err := s.number(p[i:])
			if err != nil {
				return i, false, err
			}
			i += took
			if s.state != scanMark {
				continue
			}
		case scanLine:
			j := bytes.IndexByte(p[i:], '\n')
			if j < 0 {
				s.cr = p[len(p)-1] == '\r'
				if s.num += uint64(len(p) - i); s.num > maxReplyBulk {
					return i, false, ErrFrame
				}
				return len(p), false, nil
			}
			if j > 0 {
				s.cr = p[i+j-1] == '\r'
			}
			if !s.cr {
				return i + j, false, ErrFrame
			}
			i += j + 1
			s.state = scanMark
		case scanSkip:
			took, err := s.bulk(p[i:])
			if err != nil {
				return i, false, err
			}
			if i += took; s.skip > 0 {
				return len(p), false, nil
			}
			s.state = scanMark
		case scanLF:
			if p[i] != '\n' {
				return i, false, ErrFrame
			}
			i++
			if err := s.header(); err != nil {
				return i, false, err
			}
			if s.state != scanMark {
				continue
			}
		default:
			if err := s.word(p[i]); err != nil {
				return i, false, err
			}
			i++
			continue
		}
		if s.left == 0 { // a value has ended
			return i, true, nil
		}
	}
	return len(p), false, nil
}

func (s *Scanner) begin(mark byte) error {
	inner := s.left > 0
	if !inner {
		s.left = 1
	}
	s.mark = mark
	switch mark {
	case '+', '-':
		s.left--
		s.state, s.cr, s.num = scanLine, false, 0
		return nil
	case ':', '$', '*':
		s.num, s.digits, s.neg = 0, 0, false
		s.state = scanNumber
		return nil
	}
	if s.RESP2 {
		return ErrFrame
	}
	switch mark {
	case ',', '(':
		s.left--
		s.state, s.cr, s.num = scanLine, false, 0
	case '_':
		s.state = scanCR
	case '#':
		s.state = scanBool
	case '>':
		if inner { // a push comes between replies only
			return ErrFrame
		}
		fallthrough
	case '=', '!', '~', '%', '|':
		s.num, s.digits, s.neg = 0, 0, false
		s.state = scanNumber
	default:
		return ErrFrame
	}
	return nil
}

// maxDigits is how many digits a number has at most.
const maxDigits = 19

// number reads a header's number and the line end after it, as far as p has them.
func (s *Scanner) number(p []byte) (took int, err error) {
	num, digits := s.num, s.digits
	for i, c := range p {
		d := c - '0'
		switch {
		case d <= 9 && digits < maxDigits:
			num = num*10 + uint64(d)
			digits++
		case c == '\r' && digits > 0:
			s.num = num
			if i+1 == len(p) {
				s.state = scanLF
				return i + 1, nil
			}
			if p[i+1] != '\n' {
				return 0, ErrFrame
			}
			return i + 2, s.header()
		case c == '-' && digits == 0 && !s.neg:
			s.neg = true
		default:
			return 0, ErrFrame
		}
	}
	s.num, s.digits = num, digits
	return len(p), nil
}

// word handles a byte after the type byte of a null or a boolean.
func (s *Scanner) word(c byte) error {
	switch {
	case s.state == scanBool && (c == 't' || c == 'f'):
		s.state = scanCR
	case s.state == scanCR && c == '\r':
		s.state = scanLF
	default:
		return ErrFrame
	}
	return nil
}

// bulk skips a bulk string and the CRLF after it, as far as p has them.
func (s *Scanner) bulk(p []byte) (took int, err error) {
	if s.skip <= int64(len(p)) {
		if n := s.skip; n == 1 && p[0] == '\n' || n > 1 && p[n-2] == '\r' && p[n-1] == '\n' {
			s.skip = 0
			return int(n), nil
		}
		return 0, ErrFrame
	}
	s.skip -= int64(len(p))
	if s.skip == 1 && p[len(p)-1] != '\r' {
		return 0, ErrFrame
	}
	return len(p), nil
}

// header handles a complete header. "$-1" and "*-1" are the nulls of RESP2.
func (s *Scanner) header() error {
	s.state = scanMark
	s.left--
	switch s.mark {
	case '_', '#':
		return nil
	case ':':
		if s.num > math.MaxInt64 && !(s.neg && s.num == -math.MinInt64) {
			return ErrFrame
		}
		return nil
	}
	if s.neg {
		if s.num != 1 || s.mark != '$' && s.mark != '*' {
			return ErrFrame
		}
		return nil
	}
	return s.open()
}

func (s *Scanner) open() error {
	if s.num > maxReplyItems {
		return ErrFrame
	}
	n := int64(s.num)
	switch s.mark {
	case '$', '=', '!':
		if n > maxReplyBulk || s.mark == '=' && n < int64(len(plainText)) {
			return ErrFrame
		}
		s.skip = n + 2
		s.state = scanSkip
	case '%':
		s.left += 2 * n
	case '|': // attributes come before the value that they describe
		s.left += 2*n + 1
	case '>':
		if n == 0 { // its type is missing
			return ErrFrame
		}
		s.left += n
	default:
		s.left += n
	}
	if s.left > maxReplyItems {
		return ErrFrame
	}
	return nil
}
