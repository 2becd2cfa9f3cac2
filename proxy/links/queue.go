package links

import "slices"

// queue is a first-in first-out list of requests that keeps its memory.
type queue struct {
	list []*Request
	head int
}

func (q *queue) len() int { return len(q.list) - q.head }

func (q *queue) push(c *Request) {
	if q.head > 64 && q.head*2 > len(q.list) {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, c)
}

// pop returns nil when the queue is empty.
func (q *queue) pop() *Request {
	if q.head == len(q.list) {
		return nil
	}
	c := q.list[q.head]
	q.list[q.head] = nil
	q.head++
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	return c
}

// popAll removes all requests and returns them in order.
func (q *queue) popAll() (all []*Request) {
	for c := q.pop(); c != nil; c = q.pop() {
		all = append(all, c)
	}
	return all
}

// putBack puts requests before all others and keeps their order.
func (q *queue) putBack(requests []*Request) {
	q.list, q.head = slices.Concat(requests, q.list[q.head:]), 0
}
