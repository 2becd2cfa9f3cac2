package proxy

import "leash/proxy/chunk"

// capture runs f, which runs commands of the session. It returns their replies instead of sending
// them to the client. It is a barrier in both directions. ok is false when the session ends.
func (s *session) capture(f func() bool) (reply []byte, ok bool) {
	if !s.barrier() {
		return nil, false
	}
	var taken chunk.List
	s.sendRepliesTo(&taken)
	ok = f() && s.barrier()
	s.sendRepliesTo(&s.out.List)
	reply = make([]byte, 0, taken.Len())
	taken.TakeAll(func(p []byte) { reply = append(reply, p...) })
	return reply, ok
}

// capturing reports whether the replies of the session's commands are kept for EXEC.
func (s *session) capturing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replies != &s.out.List
}

// sendRepliesTo sets where the session's replies go from now on.
func (s *session) sendRepliesTo(to *chunk.List) {
	s.mu.Lock()
	s.replies = to
	s.mu.Unlock()
}
