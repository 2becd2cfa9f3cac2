package links

import "slices"

// queue is a first-in first-out list of calls that keeps its memory.
type queue struct {
	calls []*Call
	head  int
}

func (q *queue) len() int { return len(q.calls) - q.head }

func (q *queue) push(c *Call) {
	if q.head > 64 && q.head*2 > len(q.calls) {
		n := copy(q.calls, q.calls[q.head:])
		clear(q.calls[n:])
		q.calls, q.head = q.calls[:n], 0
	}
	q.calls = append(q.calls, c)
}

// pop returns nil when the queue is empty.
func (q *queue) pop() *Call {
	if q.head == len(q.calls) {
		return nil
	}
	c := q.calls[q.head]
	q.calls[q.head] = nil
	q.head++
	if q.head == len(q.calls) {
		q.calls, q.head = q.calls[:0], 0
	}
	return c
}

// putBack puts calls before all others and keeps their order.
func (q *queue) putBack(calls []*Call) {
	q.calls, q.head = slices.Concat(calls, q.calls[q.head:]), 0
}
