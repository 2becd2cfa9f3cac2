package faultproxy

import "bytes"

// replyScanner finds where RESP2 and RESP3 replies end in a stream that comes in pieces. It does
// not keep the stream. A frame is complete when no value is missing. An aggregate adds its elements
// to the count of missing values, so no stack is needed.
type replyScanner struct {
	left int    // missing values of the frame, 0 between frames
	skip int    // missing bytes of a bulk, its line end included
	line []byte // the beginning of a line that is not whole, at most maxHeader bytes of it
	head []byte // the first bytes of the frame, to tell what it is
}

const (
	maxHeader = 64 // of a line only the type and a length matter
	maxHead   = 64 // enough for *3\r\n$12\r\nsunsubscribe
)

// next reads b up to the end of the current frame. It returns how many bytes belong to the frame
// and whether it is complete. Until the next call, frame returns what kind it was.
func (s *replyScanner) next(b []byte) (n int, whole bool, err error) {
	if s.left == 0 {
		s.left, s.head = 1, s.head[:0]
	}
	for s.left > 0 && n < len(b) {
		used, err := s.step(b[n:])
		if err != nil {
			return 0, false, err
		}
		s.head = append(s.head, b[n:n+min(used, maxHead-len(s.head))]...)
		n += used
	}
	return n, s.left == 0, nil
}

// step takes some bytes: of a bulk, or of a line.
func (s *replyScanner) step(b []byte) (int, error) {
	if s.skip > 0 {
		n := min(s.skip, len(b))
		s.skip -= n
		if s.skip == 0 {
			s.left--
		}
		return n, nil
	}
	i := bytes.IndexByte(b, '\n')
	n := i + 1
	if i < 0 {
		n = len(b)
	}
	s.line = append(s.line, b[:min(n, maxHeader-len(s.line))]...)
	if i < 0 {
		return n, nil
	}
	err := s.value(bytes.TrimSuffix(s.line, crlf))
	s.line = s.line[:0]
	return n, err
}

// value takes the first line of a value.
func (s *replyScanner) value(line []byte) error {
	if len(line) == 0 {
		return errMalformed
	}
	switch line[0] {
	case '+', '-', ':', '_', ',', '#', '(':
		s.left--
		return nil
	case '$', '=', '!', '*', '~', '>', '%', '|':
	default:
		return errMalformed
	}
	n, err := number(line)
	switch {
	case err != nil:
		return err
	case n < 0: // RESP2's nil
		s.left--
	case line[0] == '$' || line[0] == '=' || line[0] == '!':
		s.skip = n + 2
	case line[0] == '%':
		s.left += 2*n - 1
	case line[0] == '|': // an attribute goes before the value that it is about
		s.left += 2 * n
	default:
		s.left += n - 1
	}
	return nil
}

// frameKind says whether a frame is a reply to a command.
type frameKind int

const (
	answer frameKind = iota // belongs to the oldest command without one
	// of SUBSCRIBE and similar commands; one for each channel, so they are not counted
	confirmation
	message // belongs to no command
)

// frame returns the kind of the last complete frame. In RESP2, messages and confirmations look like
// answers. Their first element tells them apart, on a connection that has subscribed.
func (s *replyScanner) frame(subscribed bool) frameKind {
	push := len(s.head) > 0 && s.head[0] == '>'
	if !push && !(subscribed && len(s.head) > 0 && s.head[0] == '*') {
		return answer
	}
	_, rest, _ := bytes.Cut(s.head, crlf)
	_, rest, _ = bytes.Cut(rest, crlf)
	name, _, _ := bytes.Cut(rest, crlf)
	switch string(name) {
	case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
		return confirmation
	case "message", "pmessage", "smessage":
		return message
	}
	if push {
		return message
	}
	return answer
}
