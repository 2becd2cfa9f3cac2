package proxy

import (
	"time"

	"leash/internal/guard"
	"leash/lockcmd"
)

// close cleans up after the loop has ended. It waits for calls in flight, waits until their replies
// are written, releases locks or lets them expire, and closes the socket. A panic in one step does
// not stop the others.
func (s *session) close() {
	for _, step := range []func(){
		func() { s.subscriber.Load().Drop() },
		s.out.Flush,
		s.end.StopReading,
		s.calls.Drain,
		func() { s.tx.End() },
		func() { s.tracking.Stop() },
		s.endMonitor,
		s.releaseLocks,
		s.calls.DrainOutput, // checkSessions cuts off a client that does not read
		func() { s.server.up.Nodes.Leave(s.router.Lane) },
		s.limits.Leave,
		s.logEnd,
	} {
		s.guard("end of a session", step)
	}
	s.server.garbage.add(s.input.batch.size())
	s.stop()
	s.conn.Close()
}

// releaseLocks releases the connection's locks or lets them expire, by rule R28. A client that
// closed or sent QUIT has finished with its locks. A client that was cut off may still be at work.
// By R16, the session's calls have ended before. If the outcome of one is unknown, no lock is
// released.
func (s *session) releaseLocks() {
	s.end.Finish()
	s.locks.Close(s.endOfLocks())
}

// endOfLocks returns what becomes of the locks by the way in which the session has ended.
func (s *session) endOfLocks() lockcmd.Ending {
	return s.end.Locks(s.server.Settings().OnDisconnect, s.conn.Balanced())
}

// guard runs f, which serves the session. A panic in f ends only this session.
func (s *session) guard(what string, f func()) {
	if guard.Do(s.server.log, what, f, "session", s.id) != nil {
		s.Fail()
	}
}

// Go implements client.Owner, call.Session and subscribers.Session.
func (s *session) Go(what string, f func()) bool {
	return s.server.start(what, func() { s.guard(what, f) })
}

// Fail implements call.Session. The session has panicked. Its calls in flight may never be
// answered, so it waits for none of them. Its locks expire as if they were lost.
func (s *session) Fail() {
	s.mu.Lock()
	s.calls.FailLocked()
	s.mu.Unlock()
	s.calls.Lost(time.Now())
	s.kill("internal error", true)
}

func (s *session) logEnd() {
	why := s.end.Why()
	s.counts.flush(&s.server.stats)
	s.server.stats.ended(why)
	s.server.log.Debug("session ended", "session", s.id, "client", s.conn.RemoteAddr(), "reason", why)
}

// kill ends the session from outside, for the given reason. It does not block. If drop is set,
// calls that are not written to Redis are dropped.
func (s *session) kill(reason string, drop bool) {
	s.end.Cut(reason, drop)
	s.conn.Shut()
	s.stop()
}

// End implements client.Session, call.Session and subscribers.Session.
func (s *session) End(reason string) { s.kill(reason, false) }
