package proxy

// callList has the calls of a session that are in flight, and what limits their number. The
// session's mu guards it.
type callList struct {
	head  *call // the oldest
	tail  *call // the youngest
	free  *call // calls to reuse
	n     int   // in flight
	bytes int   // of the requests of calls in flight
	held  int   // calls that wait to be sent again; no others are sent before them
	// calls have moved to another link; no others are sent before their replies
	moved   bool
	largest int // largest recent reply; decays by an eighth with each reply
	kept    int // bytes of replies that wait for an older call's reply
}

// take takes a call for s from the free list, or makes one.
func (l *callList) take(s *session) *call {
	c := l.free
	if c == nil {
		c = &call{session: s}
	} else {
		l.free = c.next
		c.next = nil
	}
	c.muted = s.muted
	return c
}

// push makes c the youngest call. The bytes of its request do not change until it is done.
func (l *callList) push(c *call) {
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.next = c
	}
	l.tail = c
	l.n++
	l.bytes += c.bytes
	if c.in != nil {
		c.in.refs++
	}
}

// pop removes the oldest call.
func (l *callList) pop() {
	c := l.head
	l.head = c.next
	if l.head == nil {
		l.tail = nil
	}
	l.n--
	l.bytes -= c.bytes
	l.largest = max(c.size, l.largest-l.largest/8)
}

// recycle puts a call that has been removed on the free list.
func (l *callList) recycle(c *call) {
	small := c.buffer.small[:0]
	*c = call{session: c.session, next: l.free}
	c.buffer.small = small
	l.free = c
}

// window returns how many calls may be in flight. It keeps their replies below about 1 MiB, if they
// are as large as recent ones.
func (l *callList) window() int {
	return min(max(replyWindow/max(l.largest, 1), 1), maxCalls)
}
