package faultproxy

import (
	"sync"
	"time"
)

// maxQueued bounds the bytes of one direction that wait to be written. If more wait, the reader
// stops.
const maxQueued = 1 << 20

// segment is a part of one direction's stream. The writer waits for gate and due, writes data, and
// then carries out end.
type segment struct {
	gate <-chan struct{} // nil for none
	due  time.Time       // zero for at once
	data []byte
	end  endOf
}

// endOf is what happens to the connection after a segment.
type endOf int

const (
	goOn      endOf = iota
	halfClose       // the destination gets a FIN
	closeFIN        // both sides are ended, as Proxy.Cut does
	closeRST
	dropFIN // the same, by a fault
	dropRST
)

// queue carries the segments of one direction from the goroutine that reads to the one that writes.
// Both goroutines that read may push.
type queue struct {
	more chan struct{} // size 1: something was pushed
	room chan struct{} // size 1: something was taken

	mu       sync.Mutex
	segments []segment
	bytes    int
}

func newQueue() *queue {
	return &queue{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// push never blocks.
func (q *queue) push(s segment) {
	q.mu.Lock()
	q.segments = append(q.segments, s)
	q.bytes += len(s.data)
	q.mu.Unlock()
	signal(q.more)
}

// pop takes the oldest segment, and waits for one. It returns false when done is closed.
func (q *queue) pop(done <-chan struct{}) (segment, bool) {
	for {
		q.mu.Lock()
		if len(q.segments) > 0 {
			s := q.segments[0]
			q.segments = q.segments[1:]
			q.bytes -= len(s.data)
			q.mu.Unlock()
			signal(q.room)
			return s, true
		}
		q.mu.Unlock()
		select {
		case <-q.more:
		case <-done:
			return segment{}, false
		}
	}
}

// awaitRoom returns true when more may be read, false when done is closed.
func (q *queue) awaitRoom(done <-chan struct{}) bool {
	for {
		q.mu.Lock()
		full := q.bytes >= maxQueued
		q.mu.Unlock()
		if !full {
			return true
		}
		select {
		case <-q.room:
		case <-done:
			return false
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
