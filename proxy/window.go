package proxy

// Limits of what one session may have in flight. The size of its replies is a guess at first.
const (
	firstReply   = 16 << 10 // bytes assumed for the first reply
	replyWindow  = 1 << 20  // bytes of replies that calls in flight may bring
	maxCalls     = 1024     // calls in flight
	requestBytes = 8 << 20  // bytes of their requests, or one call
	maxUnread    = 1 << 20  // bytes of replies that wait for the client
	maxCommand   = 1 << 30  // bytes of one command: Redis's client-query-buffer-limit
)

// barrier waits until every earlier call has its reply, so that the next call may use another
// connection. It returns false when the session ends first.
func (s *session) barrier() bool {
	s.updateDescription()
	return s.await(0)
}

// await waits until at most calls calls are in flight and the client reads its replies. It returns
// false when the session was cut off or its socket cannot be used any more.
func (s *session) await(calls int) bool {
	s.mu.Lock()
	if s.calls.n <= calls && s.calls.held == 0 && !s.fullLocked() || s.out.DroppedLocked() {
		defer s.mu.Unlock()
		return !s.out.DroppedLocked()
	}
	s.mu.Unlock()
	s.out.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting, s.wakeAt = true, calls
	for (s.calls.n > calls || s.calls.held > 0 || s.fullLocked()) && !s.out.DroppedLocked() {
		s.wake.Wait()
	}
	s.waiting = false
	return !s.out.DroppedLocked()
}

// fullLocked reports whether so many reply bytes are unread that the session must not send more.
func (s *session) fullLocked() bool { return s.out.Len()+s.calls.kept > maxUnread }

// wakeLocked wakes the loop when its condition may have come true.
func (s *session) wakeLocked() {
	if s.waiting && s.calls.n <= s.wakeAt {
		s.wake.Signal()
	}
}

// admitCall waits until the window has room for a request of size bytes. It returns false when the
// session ends first.
func (s *session) admitCall(size int) bool {
	s.mu.Lock()
	window := s.calls.window()
	ok := s.calls.held == 0 && !s.out.DroppedLocked() && s.calls.n < window && !s.fullLocked() &&
		(s.calls.bytes+size <= requestBytes || s.calls.n == 0)
	full := s.calls.bytes+size > requestBytes
	s.mu.Unlock()
	switch {
	case ok:
		return true
	case full:
		return s.await(0)
	}
	return s.await(window / 2) // wake up once for many replies, not for each
}
