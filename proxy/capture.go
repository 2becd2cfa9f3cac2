package proxy

import "leash/proxy/chunk"

// capture runs f, which runs commands of the session. It returns their replies instead of sending
// them to the client. It is a barrier in both directions. ok is false when the session ends.
func (s *session) capture(f func() bool) (reply []byte, ok bool) {
	if !s.router.Barrier() {
		return nil, false
	}
	var taken chunk.List
	s.calls.SendTo(&taken)
	ok = f() && s.router.Barrier()
	s.calls.SendTo(nil)
	reply = make([]byte, 0, taken.Len())
	taken.TakeAll(func(p []byte) { reply = append(reply, p...) })
	return reply, ok
}
