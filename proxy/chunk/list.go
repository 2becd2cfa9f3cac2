// Package chunk keeps bytes that wait, without moving what it has.
package chunk

import "sync"

// size is how many bytes a chunk holds.
const size = 16<<10 - 24

// chunk is a piece of a list. Its bytes between r and w are in the list.
type chunk struct {
	next *chunk
	r, w int
	buf  [size]byte
}

var pool = sync.Pool{New: func() any { return new(chunk) }}

// List is a list of bytes that grows without moving its content. The zero value is empty. One
// goroutine may append while another reads the bytes that Front returned. A mutex must guard
// everything else.
type List struct {
	head, tail *chunk
	length     int
}

// Len returns the number of bytes. A nil List has none.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return l.length
}

// Append copies p to the end.
func (l *List) Append(p []byte) {
	l.length += len(p)
	for len(p) > 0 {
		if l.tail == nil || l.tail.w == size {
			c := pool.Get().(*chunk)
			c.next, c.r, c.w = nil, 0, 0
			if l.tail == nil {
				l.head = c
			} else {
				l.tail.next = c
			}
			l.tail = c
		}
		n := copy(l.tail.buf[l.tail.w:], p)
		l.tail.w += n
		p = p[n:]
	}
}

// Splice moves all of o, which may be nil, to the end of l.
func (l *List) Splice(o *List) {
	switch {
	case o.Len() == 0:
		return
	case l.tail == nil:
		*l = *o
	default:
		l.tail.next = o.head
		l.tail = o.tail
		l.length += o.length
	}
	*o = List{}
}

// Front returns the first bytes, or nil if the list is empty.
func (l *List) Front() []byte {
	if l.head == nil {
		return nil
	}
	return l.head.buf[l.head.r:l.head.w]
}

// Advance drops n bytes of Front.
func (l *List) Advance(n int) {
	l.length -= n
	c := l.head
	c.r += n
	if c.r < c.w {
		return
	}
	l.head = c.next
	if l.head == nil {
		l.tail = nil
	}
	pool.Put(c)
}

// TakeAll removes all pieces and gives each to f.
func (l *List) TakeAll(f func(p []byte)) {
	for p := l.Front(); p != nil; p = l.Front() {
		f(p)
		l.Advance(len(p))
	}
}

// Clear removes everything. It does not reuse the first chunk, because a writer may still read it.
func (l *List) Clear() { *l = List{} }
