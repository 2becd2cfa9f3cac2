package proxy

import "leash/proxy/upstream"

// deliver gives the client a frame that is not a reply to a command. It is a message of a channel
// or an invalidation. It comes after earlier output and never within a reply. It does not block and
// may be called from any goroutine. It returns the output if the caller must flush it.
func (s *session) deliver(frame []byte) upstream.Flusher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deliverBehindLocked(nil, frame)
}

// deliverBehindLocked is deliver for a frame that must come after the reply to c. The client does
// not have that reply yet. A nil c means that there is no such reply.
func (s *session) deliverBehindLocked(c *call, frame []byte) upstream.Flusher {
	switch {
	case s.out.DroppedLocked():
		return nil
	case c != nil:
		c.after = append(c.after, frame...)
		return nil
	}
	if s.pushes.holds > 0 || s.calls.head != nil && s.calls.head.begun {
		s.pushes.waiting.Append(frame)
	} else {
		s.out.Append(frame)
	}
	return s.toFlushLocked()
}

// toFlushLocked returns the output if it has output that no goroutine is about to flush. The
// caller must then flush it.
func (s *session) toFlushLocked() upstream.Flusher {
	if !s.out.ScheduleLocked() {
		return nil
	}
	return &s.out
}
