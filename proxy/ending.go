package proxy

import (
	"errors"
	"io"
	"syscall"
	"time"

	"leash/internal/guard"
	"leash/lockcmd"
)

// close cleans up after the loop has ended. It waits for calls in flight, waits until their replies
// are written, releases locks or lets them expire, and closes the socket. A panic in one step does
// not stop the others.
func (s *session) close() {
	for _, step := range []func(){
		s.dropSubscriptions,
		s.out.Flush,
		s.endReading,
		s.calls.Drain,
		func() { s.tx.End() },
		func() { s.tracking.Load().Stop() },
		s.endMonitor,
		s.releaseLocks,
		s.calls.DrainOutput, // runSessionChecks cuts off a client that does not read
		func() { s.server.up.Leave(s.router.Lane) },
		s.quota.leave,
		s.logEnd,
	} {
		s.guard("end of a session", step)
	}
	s.server.garbage.add(s.input.batch.size())
	s.stop()
	s.conn.Close()
}

// endReading records that the loop has ended.
func (s *session) endReading() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
}

// causeOf returns how the client's side of the connection ended.
func (s *session) causeOf(err error) endCause {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.killedBy == peerTimeout: // the kernel would have reported it later
		s.wasReset = true
		return endBroken
	case s.cut, s.leaving.Load():
		return endKilled
	case errors.Is(err, io.EOF) && !s.out.DroppedLocked():
		return endFIN
	}
	s.wasReset = !errors.Is(err, io.EOF)
	return endBroken
}

// releaseLocks releases the connection's locks or lets them expire, by rule R28. A client that
// closed or sent QUIT has finished with its locks. A client that was cut off may still be at work.
// By R16, the session's calls have ended before. If the outcome of one is unknown, no lock is
// released.
func (s *session) releaseLocks() {
	s.mu.Lock()
	if s.cause == endBroken && !s.wasReset && errors.Is(s.out.FailedLocked(), syscall.EPIPE) {
		s.cause = endFIN // after a FIN, the kernel reports EPIPE instead of ECONNRESET
	}
	s.mu.Unlock()
	s.endCarrier(s.ending())
}

// endCarrier ends the carrier in the given way. All its locks expire if the session was cut off, or
// if Redis may still execute an earlier command of the session.
func (s *session) endCarrier(how lockcmd.Ending) {
	use := s.locks.Load()
	if use == nil {
		return
	}
	carrier := use.carrier.Swap(nil)
	if carrier == nil {
		return
	}
	s.mu.Lock()
	cut, unsure := s.cut && s.killedBy != peerTimeout, time.Time{}
	s.mu.Unlock()
	if lost := s.calls.LastLoss(); !lost.IsZero() {
		unsure = lost.Add(lateCommandTime)
	}
	switch {
	case time.Now().Before(unsure):
		carrier.EndUnsure(unsure)
	case cut:
		carrier.End(lockcmd.Expire)
	default:
		carrier.End(how)
	}
}

// lateCommandTime is how long Redis may still execute a command from a lost connection.
const lateCommandTime = 10 * time.Second

func (s *session) ending() lockcmd.Ending {
	switch setting := s.server.Settings().OnDisconnect; {
	case s.cause == endQuit:
		return lockcmd.Release
	case setting == "release" && (s.cause == endFIN || s.cause == endBroken):
		return lockcmd.Release
	case setting == "expire":
		return lockcmd.Expire
	case s.cause == endFIN && !s.conn.Balanced():
		// a balancer also closes the connection when its client has vanished
		return lockcmd.Release
	}
	return lockcmd.Expire
}

// guard runs f, which serves the session. A panic in f ends only this session.
func (s *session) guard(what string, f func()) {
	if guard.Do(s.server.log, what, f, "session", s.id) != nil {
		s.endFaulty()
	}
}

// endFaulty ends a session that has panicked. Its calls in flight may never be answered, so it
// waits for none of them. Its locks expire as if they were lost.
func (s *session) endFaulty() {
	s.mu.Lock()
	s.calls.FailLocked()
	s.mu.Unlock()
	s.calls.Lost(time.Now())
	s.kill("internal error", true)
}

func (s *session) logEnd() {
	s.mu.Lock()
	why := s.killedBy
	s.mu.Unlock()
	if why == "" {
		why = s.cause.String()
	}
	s.counts.flush(&s.server.stats)
	s.server.stats.ended(why)
	s.server.log.Debug("session ended", "session", s.id, "client", s.conn.RemoteAddr(), "reason", why)
}

// String names the cause in logs.
func (c endCause) String() string {
	return [...]string{"connection broken", "client closed", "quit", "protocol error", "killed"}[c]
}
