package proxy

import (
	"time"

	"leash/proxy/client"
)

// owner is the session as its output and its watchers see it.
type owner session

var _ client.Owner = (*owner)(nil)

// Go implements client.Owner.
func (o *owner) Go(what string, f func()) bool {
	s := (*session)(o)
	return s.server.start(what, func() { s.guard(what, f) })
}

// Wrote implements client.Owner.
func (o *owner) Wrote() {
	s := (*session)(o)
	if s.waiting && (s.out.DroppedLocked() || s.out.Len() == 0 || !s.fullLocked()) {
		s.wake.Signal()
	}
}

// Dropped implements client.Owner. The session's calls go on: commands that Redis has received
// cannot be taken back.
func (o *owner) Dropped(n int) {
	s := (*session)(o)
	s.server.garbage.add(n + s.pushes.waiting.Len())
	s.pushes.waiting.Clear()
	s.wake.Signal()
}

// backlog returns how many bytes of output wait and for how long the socket has taken none. over
// means that the session has ended and only waits for the socket.
func (s *session) backlog(now time.Time) (size int, stalled time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := s.out.StalledSinceLocked(); !since.IsZero() {
		stalled = now.Sub(since)
	}
	return s.out.Len() + s.pushes.waiting.Len() + s.calls.kept, stalled, s.over
}
