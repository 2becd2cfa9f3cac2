package call

// Limits of what one session may have in flight. The size of its replies is a guess at first.
const (
	firstReply   = 16 << 10 // bytes assumed for the first reply
	replyWindow  = 1 << 20  // bytes of replies that calls in flight may bring
	maxCalls     = 1024     // calls in flight
	requestBytes = 8 << 20  // bytes of their requests, or one call
	MaxUnread    = 1 << 20  // bytes of replies that wait for the client
)

// window returns how many calls may be in flight. It keeps their replies below about 1 MiB, if they
// are as large as recent ones.
func (q *Queue) window() int {
	return min(max(replyWindow/max(q.largest, 1), 1), maxCalls)
}

// Empty waits until every call has its reply, so that the next one may use another connection. It
// returns false when the session ends first.
func (q *Queue) Empty() bool { return q.await(0) }

// Readable waits until the client reads its replies, and the session is not suspended. It returns
// false when the session was cut off or its socket cannot be used any more.
func (q *Queue) Readable() bool { return q.await(maxCalls) }

// await waits until at most calls calls are in flight and the client reads its replies. It returns
// false when the session was cut off or its socket cannot be used any more.
func (q *Queue) await(calls int) bool {
	q.mu.Lock()
	if q.n <= calls && q.suspended == 0 && !q.FullLocked() || q.out.DroppedLocked() {
		defer q.mu.Unlock()
		return !q.out.DroppedLocked()
	}
	q.mu.Unlock()
	q.out.Flush()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting, q.wakeAt = true, calls
	for (q.n > calls || q.suspended > 0 || q.FullLocked()) && !q.out.DroppedLocked() {
		q.wake.Wait()
	}
	q.waiting = false
	return !q.out.DroppedLocked()
}

// FullLocked reports whether so many reply bytes are unread that the session must not send more.
func (q *Queue) FullLocked() bool { return q.out.Len()+q.kept > MaxUnread }

// wakeLocked wakes the loop when its condition may have come true.
func (q *Queue) wakeLocked() {
	if q.waiting && q.n <= q.wakeAt {
		q.wake.Signal()
	}
}

// Admit waits until the window has room for a request of size bytes. It returns false when the
// session ends first.
func (q *Queue) Admit(size int) bool {
	q.mu.Lock()
	window := q.window()
	ok := q.suspended == 0 && !q.out.DroppedLocked() && q.n < window && !q.FullLocked() &&
		(q.bytes+size <= requestBytes || q.n == 0)
	full := q.bytes+size > requestBytes
	q.mu.Unlock()
	switch {
	case ok:
		return true
	case full:
		return q.await(0)
	}
	return q.await(window / 2) // wake up once for many replies, not for each
}

// lockForPush locks mu when the session is not suspended, so that a call may be pushed. It returns
// false when the session ends.
func (q *Queue) lockForPush() bool {
	q.mu.Lock()
	for q.suspended > 0 {
		q.mu.Unlock()
		if !q.await(maxCalls) {
			return false
		}
		q.mu.Lock()
	}
	return true
}

// Drain waits until no call is in flight, although the client may have gone. Every call ends at the
// latest when its node is found dead.
func (q *Queue) Drain() { q.wait(func() bool { return q.n > 0 }) }

// DrainOutput waits until the socket has taken all replies, or cannot be used any more.
func (q *Queue) DrainOutput() {
	q.out.Flush()
	q.wait(q.out.BusyLocked)
}

// wait locks mu and waits while busy returns true, but not in a session that has panicked.
func (q *Queue) wait(busy func() bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting, q.wakeAt = true, 0
	for busy() && !q.faulty {
		q.wake.Wait()
	}
	q.waiting = false
}

// WroteLocked wakes the loop when it may wait for the output that the client has taken.
func (q *Queue) WroteLocked() {
	if q.waiting && (q.out.DroppedLocked() || q.out.Len() == 0 || !q.FullLocked()) {
		q.wake.Signal()
	}
}

// DroppedLocked drops frames that wait behind the output, which was dropped. It returns their
// bytes. Calls go on: commands that Redis has received cannot be taken back.
func (q *Queue) DroppedLocked() int {
	n := q.pushes.waiting.Len()
	q.pushes.waiting.Clear()
	q.wake.Signal()
	return n
}
