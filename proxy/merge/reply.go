package merge

import (
	"bytes"
	"slices"

	"leash/proxy/chunk"
	"leash/proxy/resp"
)

// Reply is one reply. A large reply is kept in pieces, so that its bytes are not moved. The zero
// value is an empty reply.
type Reply struct {
	Keys  []int // which of the command's keys the reply is about; for Values
	Spare bool  // an error here is no error of the whole command

	start []byte     // the beginning of the reply, or all of it
	rest  chunk.List // the remainder
}

// maxStart limits the beginning of a reply that is kept in one piece, in bytes.
const maxStart = 16 << 10

// Of returns a reply that consists of b.
func Of(b []byte) Reply { return Reply{start: b} }

// Append adds a piece to the reply.
func (r *Reply) Append(b []byte) {
	n := min(len(b), maxStart-min(len(r.start), maxStart))
	r.start = append(r.start, b[:n]...)
	r.rest.Append(b[n:])
}

// Fail replaces the reply by an error. The message begins with its code.
func (r *Reply) Fail(message string) {
	r.rest.Clear()
	r.start = resp.AppendError(r.start[:0], message)
}

// Split returns the bytes of the reply: the beginning, and what follows.
func (r *Reply) Split() (start []byte, rest *chunk.List) { return r.start, &r.rest }

// Bytes returns the reply in one piece.
func (r *Reply) Bytes() []byte {
	if n := r.rest.Len(); n > 0 {
		r.start = slices.Grow(r.start, n)
		r.rest.TakeAll(func(b []byte) { r.start = append(r.start, b...) })
	}
	return r.start
}

func (r *Reply) isError() bool { return len(r.start) > 0 && r.start[0] == '-' }

// move moves the reply to another one.
func (r *Reply) move() Reply {
	moved := Reply{start: r.start, rest: r.rest}
	r.start, r.rest = nil, chunk.List{}
	return moved
}

// moveElement moves the next element of a list to the end of to. The header of the list has been
// removed. It returns false if there is no complete element.
func (r *Reply) moveElement(to *chunk.List) bool {
	var scan resp.Scanner
	done, odd := false, false
	move := func(b []byte) (n int) {
		var err error
		n, done, err = scan.Scan(b)
		odd = err != nil
		to.Append(b[:n])
		return n
	}
	r.start = r.start[move(r.start):]
	for !done && !odd && r.rest.Len() > 0 {
		r.rest.Advance(move(r.rest.Front()))
	}
	return done && !odd
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
