package proxy

import (
	"time"

	"leash/proxy/upstream"
)

var _ upstream.Flusher = (*session)(nil)

// maxAttempts bounds the writes of one Flush, because a link may wait for it.
const maxAttempts = 64

// Flush writes waiting output to the socket, and does not block. When the socket is full, a
// goroutine of the session writes the rest and ends when no output is left. The flag writing lets
// one goroutine write at a time. So no goroutine waits for a mutex behind a slow client.
func (s *session) Flush() {
	s.mu.Lock()
	s.flushing = false
	if s.writing || s.out.Len() == 0 || s.outputDropped {
		s.mu.Unlock()
		return
	}
	s.writing = true
	for range maxAttempts {
		if !s.writeLocked(s.conn.Try) {
			break
		}
	}
	if s.writing && !s.server.start("writer", func() { s.guard("writer", s.writer) }) {
		s.writing = false
	}
	s.mu.Unlock()
}

// writeLocked writes the first chunk without the mutex and reports whether to go on. It clears
// writing when nothing is left to write or the socket cannot be used.
func (s *session) writeLocked(write func([]byte) (int, error)) bool {
	p := s.out.Front()
	s.mu.Unlock()
	n, err := write(p)
	s.mu.Lock()
	if s.outputDropped {
		s.writing = false
		s.wake.Signal()
		return false
	}
	s.out.Advance(n)
	if err != nil {
		s.failed = err
		s.dropOutputLocked()
		s.writing = false
		return false
	}
	if s.out.Len() == 0 {
		s.writing = false
	}
	if s.waiting && (s.out.Len() == 0 || !s.fullLocked()) {
		s.wake.Signal()
	}
	return n == len(p) && s.writing
}

// writer writes the rest of the output and waits for the socket. It ends when all is written or the
// socket cannot be used.
func (s *session) writer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = time.Now()
	for s.writing {
		s.writeLocked(s.conn.Push)
		s.progress = time.Now()
	}
	s.progress = time.Time{}
}

// dropOutputLocked drops the output of a client whose socket cannot be used any more. Its calls go
// on: commands that Redis has received cannot be taken back.
func (s *session) dropOutputLocked() {
	s.outputDropped = true
	s.server.garbage.add(s.out.Len() + s.pushes.waiting.Len())
	s.out.Clear()
	s.pushes.waiting.Clear()
	s.wake.Signal()
}

// backlog returns how many bytes of output wait and for how long the socket has taken none. over
// means that the session has ended and only waits for the socket.
func (s *session) backlog(now time.Time) (size int, stalled time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing && !s.progress.IsZero() {
		stalled = now.Sub(s.progress)
	}
	return s.out.Len() + s.pushes.waiting.Len() + s.calls.kept, stalled, s.over
}
