package proxy

import "time"

// Leash tracks how long a client has been silent, for holds with IDLE. lockUse.silence is the time
// since which the loop has waited for bytes, or the time of a later reply. It is in nanoseconds
// since the server was started, and 0 while the loop works. A client that waits for a reply is not
// silent, because it is not expected to send. The silence of a client that does not read its
// replies begins when its socket last accepted bytes.

// beginSilence is called when the loop is about to wait for bytes.
func (s *session) beginSilence() {
	if use := s.locks.Load(); use != nil && use.carrier.Load() != nil {
		use.silence.Store(s.server.sinceStart())
	}
}

// endSilence is called when bytes have come.
func (s *session) endSilence() {
	if use := s.locks.Load(); use != nil && use.silence.Load() != 0 {
		use.silence.Store(0)
	}
}

// restartSilence restarts the silence, because the client has got the last of its replies.
func (s *session) restartSilence() {
	use := s.locks.Load()
	if use == nil {
		return
	}
	if at := use.silence.Load(); at != 0 {
		use.silence.CompareAndSwap(at, s.server.sinceStart())
	}
}

// sinceStart returns the nanoseconds since the server was started. It is never 0.
func (s *Server) sinceStart() int64 { return max(int64(time.Since(s.started)), 1) }

// SilentSince implements lockcmd.Silence.
func (h *host) SilentSince() time.Time {
	s := (*session)(h)
	s.mu.Lock()
	owed := s.calls.LenLocked() > 0
	if since := s.out.StalledSinceLocked(); !since.IsZero() && s.calls.FullLocked() {
		s.mu.Unlock()
		return since
	}
	s.mu.Unlock()
	at := s.locks.Load().silence.Load() // only a carrier asks
	// With unread bytes in the socket, Leash itself was stopped or slow. The client was not silent.
	if owed || at == 0 || s.conn.HasUnread() {
		return time.Time{}
	}
	return s.server.started.Add(time.Duration(at))
}
