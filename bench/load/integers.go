package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// errNil is the error for a nil reply instead of an integer.
var errNil = errors.New("got a nil")

// integers reads replies that are an integer or a flat array of them, as they come.
type integers struct {
	text []byte
	list []int64
}

// receive takes what has come. list is the reply when it is complete.
func (r *integers) receive(came []byte) (complete bool, err error) {
	r.text = append(r.text, came...)
	r.list = r.list[:0]
	rest, due := r.text, 1
	for due > 0 {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return false, nil
		}
		line := bytes.TrimSuffix(rest[:end], []byte("\r"))
		rest = rest[end+1:]
		kind, n, err := integer(line)
		if err != nil {
			return false, err
		}
		if kind == '*' {
			due += int(n)
		} else {
			r.list = append(r.list, n)
		}
		due--
	}
	if len(rest) > 0 {
		return false, fmt.Errorf("wrong reply: %q behind it", rest)
	}
	r.text = r.text[:0]
	return true, nil
}

// integer reads a line that is an integer, or the head of an array.
func integer(line []byte) (kind byte, n int64, err error) {
	if string(line) == "$-1" {
		return 0, 0, errNil
	}
	if len(line) > 1 && (line[0] == ':' || line[0] == '*') {
		if n, err := strconv.ParseInt(string(line[1:]), 10, 64); err == nil {
			return line[0], n, nil
		}
	}
	return 0, 0, fmt.Errorf("wrong reply: got %q, want integers", line)
}
