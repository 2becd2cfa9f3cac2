package proxy

import (
	"time"

	"leash/proxy/upstream"
)

var _ upstream.Flusher = (*session)(nil)

// maxAttempts bounds how much one Flush writes, for a link may wait behind it.
const maxAttempts = 64

// Flush gives the socket what waits for it. It does not block: whoever has
// something to flush tries one write that does not wait; when the socket is
// full, the rest goes to a goroutine of the session that lives while output
// waits. One goroutine at a time writes, kept so by a flag, so that nobody
// waits for a mutex behind a slow client.
func (s *session) Flush() {
	s.mu.Lock()
	s.flushing = false
	if s.writing || s.out.size == 0 || s.outputDropped {
		s.mu.Unlock()
		return
	}
	s.writing = true
	for range maxAttempts {
		if !s.writeLocked(s.conn.try) {
			break
		}
	}
	if s.writing && !s.server.start("writer", func() { s.guard("writer", s.writer) }) {
		s.writing = false
	}
	s.mu.Unlock()
}

// writeLocked writes the first chunk without the mutex and reports whether to
// go on. It clears writing when nothing is left to write, or no use.
func (s *session) writeLocked(write func([]byte) (int, error)) bool {
	p := s.out.front()
	s.mu.Unlock()
	n, err := write(p)
	s.mu.Lock()
	if s.outputDropped {
		s.writing = false
		s.wake.Signal()
		return false
	}
	s.out.advance(n)
	if err != nil {
		s.failed = err
		s.dropOutputLocked()
		s.writing = false
		return false
	}
	if s.out.size == 0 {
		s.writing = false
	}
	if s.waiting && (s.out.size == 0 || !s.fullLocked()) {
		s.wake.Signal()
	}
	return n == len(p) && s.writing
}

// writer waits for the socket to take the rest. It ends when all is written or
// the socket is of no use.
func (s *session) writer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = time.Now()
	for s.writing {
		s.writeLocked(s.conn.push)
		s.progress = time.Now()
	}
	s.progress = time.Time{}
}

// dropOutputLocked drops the output of a client whose socket is of no use any more.
// Its calls go on: what Redis has been told cannot be taken back.
func (s *session) dropOutputLocked() {
	s.outputDropped = true
	s.server.garbage.add(s.out.size + s.pushes.size)
	s.out.clear()
	s.pushes.clear()
	s.wake.Signal()
}

// backlog reports how much output waits, for how long the socket has taken
// nothing of it, and whether the session only waits for that.
func (s *session) backlog(now time.Time) (size int, stalled time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing && !s.progress.IsZero() {
		stalled = now.Sub(s.progress)
	}
	return s.out.size + s.pushes.size + s.keptBytes, stalled, s.over
}
