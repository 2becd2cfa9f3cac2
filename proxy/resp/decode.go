package resp

import "bytes"

// ReplyError is an error that Redis answered with, without '-' and line end.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// ErrorIn returns the error in a reply of Redis, as a ReplyError; nil if the reply is none.
func ErrorIn(reply []byte) error {
	if reply[0] != errorMark {
		return nil
	}
	return ReplyError(bytes.TrimSpace(reply[1:]))
}

// Decode reads one whole RESP2 reply. value is an int64, a string, nil, a ReplyError, or a []any of
// the first three and of lists. ok is false for anything else, see Plain.
func Decode(reply []byte) (value any, ok bool) {
	scan := Scanner{RESP2: true}
	if n, done, err := scan.Scan(reply); err != nil || !done || n < len(reply) || !Plain(reply) {
		return nil, false
	}
	value, _, ok = cutValue(reply)
	return value, ok
}

// cutValue removes a value from the start of what Plain has accepted.
func cutValue(b []byte) (value any, rest []byte, ok bool) {
	line, rest, _ := bytes.Cut(b, []byte(asciiCRLF))
	mark, text := line[0], line[1:]
	switch mark {
	case statusMark:
		return string(text), rest, true
	case errorMark:
		return ReplyError(text), rest, true
	}
	n, ok := ParseInt(text)
	switch {
	case !ok:
		return nil, nil, false
	case mark == integerMark:
		return n, rest, true
	case mark != bulkMark && mark != arrayMark:
		return nil, nil, false
	case n < 0:
		return nil, rest, true
	case mark == bulkMark:
		return string(rest[:n]), rest[n+2:], true
	}
	list := make([]any, n) // Plain found that many
	for i := range list {
		if list[i], rest, ok = cutValue(rest); !ok {
			return nil, nil, false
		}
	}
	return list, rest, true
}
