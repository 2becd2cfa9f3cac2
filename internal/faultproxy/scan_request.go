package faultproxy

import (
	"bytes"
	"errors"
	"strconv"
)

var (
	crlf         = []byte("\r\n")
	errMalformed = errors.New("faultproxy: malformed")
)

const (
	maxLength = 1 << 31  // of an array or a bulk; Redis itself allows less
	maxLine   = 64 << 10 // of a request, as in Redis
)

// number parses the rest of a line after its type byte: a length, negative ones included.
func number(line []byte) (int, error) {
	if len(line) < 2 {
		return 0, errMalformed
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n > maxLength {
		return 0, errMalformed
	}
	return n, nil
}

// requestScanner finds where commands end. It gets the same bytes again, with more behind them,
// until the command is complete. It remembers how far it has parsed.
type requestScanner struct {
	pos     int // parsed up to here
	left    int // missing arguments
	started bool
}

// next returns the length of the complete command at the start of buf, or 0 if it is not complete
// yet. The next buf must begin with what follows the command.
func (s *requestScanner) next(buf []byte) (int, error) {
	if !s.started {
		line, ok, err := s.line(buf)
		if !ok || err != nil {
			return 0, err
		}
		if len(line) > 0 && line[0] == '*' {
			if s.left, err = number(line); err != nil {
				return 0, err
			}
		}
		s.started = true
	}
	for ; s.left > 0; s.left-- {
		if ok, err := s.skipArg(buf); !ok || err != nil {
			return 0, err
		}
	}
	n := s.pos
	*s = requestScanner{}
	return n, nil
}

// line takes the line at pos, without its end.
func (s *requestScanner) line(buf []byte) (line []byte, ok bool, err error) {
	i := bytes.IndexByte(buf[s.pos:], '\n')
	switch {
	case i > maxLine, i < 0 && len(buf)-s.pos > maxLine:
		return nil, false, errMalformed
	case i < 0:
		return nil, false, nil
	}
	line = bytes.TrimSuffix(buf[s.pos:s.pos+i], []byte{'\r'})
	s.pos += i + 1
	return line, true, nil
}

// skipArg steps over one bulk string if it is whole.
func (s *requestScanner) skipArg(buf []byte) (bool, error) {
	start := s.pos
	line, ok, err := s.line(buf)
	if !ok || err != nil {
		return false, err
	}
	n, err := number(line)
	if err != nil || n < 0 || line[0] != '$' {
		return false, errMalformed
	}
	if len(buf)-s.pos < n+2 {
		s.pos = start
		return false, nil
	}
	s.pos += n + 2
	return true, nil
}
