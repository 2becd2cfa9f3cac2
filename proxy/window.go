package proxy

// How much a session may have on the way. The size of replies is a guess at
// first.
const (
	firstReply   = 16 << 10 // bytes of a reply
	replyWindow  = 1 << 20  // bytes of replies that calls in flight may bring
	maxCalls     = 1024     // calls in flight
	requestBytes = 8 << 20  // bytes of their requests, or one call
	maxUnread    = 1 << 20  // bytes of replies that wait for the client
	maxCommand   = 1 << 30  // bytes of one command: Redis's client-query-buffer-limit
)

// barrier waits until every earlier call has its reply, so that the next one
// may go another way. It returns false when the session ends meanwhile.
func (s *session) barrier() bool {
	s.publish()
	return s.await(0)
}

// await waits until at most so many calls are in flight and the client reads
// its replies. It returns false when the session ends: it was cut off, or its
// socket is of no use any more.
func (s *session) await(calls int) bool {
	s.mu.Lock()
	if s.calls <= calls && s.held == 0 && !s.fullLocked() || s.outputDropped {
		defer s.mu.Unlock()
		return !s.outputDropped
	}
	s.mu.Unlock()
	s.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting, s.wakeAt = true, calls
	for (s.calls > calls || s.held > 0 || s.fullLocked()) && !s.outputDropped {
		s.wake.Wait()
	}
	s.waiting = false
	return !s.outputDropped
}

// fullLocked reports whether so many bytes of replies wait that nothing more
// is asked for.
func (s *session) fullLocked() bool { return s.out.size+s.keptBytes > maxUnread }

// wakeLocked wakes the loop when it may have what it waits for.
func (s *session) wakeLocked() {
	if s.waiting && s.calls <= s.wakeAt {
		s.wake.Signal()
	}
}

// windowLocked is how many calls may be in flight: as many as keep replies of
// the size seen lately below about 1 MiB.
func (s *session) windowLocked() int {
	return min(max(replyWindow/max(s.largest, 1), 1), maxCalls)
}

// admitCall waits until the window has room for a request of so many bytes.
// It returns false when the session ends meanwhile.
func (s *session) admitCall(size int) bool {
	s.mu.Lock()
	window := s.windowLocked()
	ok := s.held == 0 && !s.outputDropped && s.calls < window && !s.fullLocked() &&
		(s.bytes+size <= requestBytes || s.calls == 0)
	full := s.bytes+size > requestBytes
	s.mu.Unlock()
	switch {
	case ok:
		return true
	case full:
		return s.await(0)
	}
	return s.await(window / 2) // waking once for many replies, not for each
}
