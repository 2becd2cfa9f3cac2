package proxy

import "sync"

// chunkSize is how many bytes a chunk holds.
const chunkSize = 16<<10 - 24

// chunk is a piece of output. Its bytes between r and w wait for the socket.
type chunk struct {
	next *chunk
	r, w int
	buf  [chunkSize]byte
}

var chunkPool = sync.Pool{New: func() any { return new(chunk) }}

// chunks is a list of bytes that grows without moving its content. The zero value is empty. One
// goroutine may append after the first chunk's w while another reads between its r and w. A mutex
// must guard everything else.
type chunks struct {
	head, tail *chunk
	size       int
}

func (q *chunks) append(p []byte) {
	q.size += len(p)
	for len(p) > 0 {
		if q.tail == nil || q.tail.w == chunkSize {
			c := chunkPool.Get().(*chunk)
			c.next, c.r, c.w = nil, 0, 0
			if q.tail == nil {
				q.head = c
			} else {
				q.tail.next = c
			}
			q.tail = c
		}
		n := copy(q.tail.buf[q.tail.w:], p)
		q.tail.w += n
		p = p[n:]
	}
}

// splice moves all of o to the end of q.
func (q *chunks) splice(o *chunks) {
	switch {
	case o.head == nil:
		return
	case q.tail == nil:
		*q = *o
	default:
		q.tail.next = o.head
		q.tail = o.tail
		q.size += o.size
	}
	*o = chunks{}
}

// front returns the first waiting bytes, or nil if there are none.
func (q *chunks) front() []byte {
	if q.head == nil {
		return nil
	}
	return q.head.buf[q.head.r:q.head.w]
}

// advance drops n bytes of front.
func (q *chunks) advance(n int) {
	q.size -= n
	c := q.head
	c.r += n
	if c.r < c.w {
		return
	}
	q.head = c.next
	if q.head == nil {
		q.tail = nil
	}
	chunkPool.Put(c)
}

// takeAll removes all pieces and gives each to f.
func (q *chunks) takeAll(f func(p []byte)) {
	for p := q.front(); p != nil; p = q.front() {
		f(p)
		q.advance(len(p))
	}
}

// clear removes everything. It does not reuse the first chunk, because a writer may still read it.
func (q *chunks) clear() { *q = chunks{} }

// smallReply limits the replies that wait in their call's own memory, in bytes.
const smallReply = 1024

// replyBuffer keeps a reply while an earlier reply is missing.
type replyBuffer struct {
	small []byte
	rest  chunks
}

func (b *replyBuffer) append(p []byte) {
	if b.rest.head == nil && len(b.small)+len(p) <= smallReply {
		b.small = append(b.small, p...)
		return
	}
	b.rest.append(p)
}

// clear removes all bytes.
func (b *replyBuffer) clear() {
	b.small = b.small[:0]
	b.rest.clear()
}

// moveTo moves all bytes to out.
func (b *replyBuffer) moveTo(out *chunks) {
	out.append(b.small)
	b.small = b.small[:0]
	out.splice(&b.rest)
}
