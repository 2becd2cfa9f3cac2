package proxy

import (
	"context"
	"time"
)

// Bounds of an orderly stop, beside Config.DrainTimeout.
const (
	lastRenewal = time.Second // for renewing every hold once more
	// for calls in flight and the replies' way out, and as much for what Redis does not answer
	lastCalls = time.Second
)

// drain ends all sessions (rule R31): no lock is granted any more;
// sessions without holds end when their calls in flight are answered; holders
// have Config.DrainTimeout to finish; then every hold is renewed a last time
// to its full time to live and the connections close, so that the owner can go
// on elsewhere.
func (s *Server) drain() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.locks.Drain()
	began := time.Now()
	deadline := began.Add(s.cfg.DrainTimeout)
	holders := s.holderCount()
	s.log.Info("leash stops", "clients", s.sessionCount(), "holders", holders, "drain-timeout", s.cfg.DrainTimeout)
	for _, one := range s.all() {
		one.leaveIfDraining()
	}
	s.awaitSessions(deadline)
	if holders > 0 {
		s.logDrained(time.Since(began))
	}

	if s.sessionCount() > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), lastRenewal)
		s.locks.RenewAll(ctx)
		cancel()
		s.locks.EndLossWaits()
		for _, one := range s.all() {
			one.leave()
		}
		s.awaitSessions(time.Now().Add(lastCalls))
	}
	for _, one := range s.all() {
		one.kill("server stops", false)
	}
	if s.sessionCount() > 0 {
		s.up.Abandon() // calls still in flight would delay the stop
	}
	s.awaitSessions(time.Now().Add(lastCalls))
}

// holderCount is how many sessions have holds.
func (s *Server) holderCount() (n int) {
	for _, one := range s.all() {
		if one.isHolder() {
			n++
		}
	}
	return n
}

func (s *session) isHolder() bool {
	carrier := s.carrier.Load()
	return carrier != nil && carrier.Holds() > 0
}

// logDrained logs whether the holders have gone in time.
func (s *Server) logDrained(waited time.Duration) {
	waited = waited.Round(time.Millisecond)
	if n := s.holderCount(); n > 0 {
		s.log.Warn("closing clients that still hold locks: the locks expire unless the clients attach to another leash", "holders", n, "waited", waited)
		return
	}
	s.log.Info("all holders have gone", "clients", s.sessionCount(), "waited", waited)
}

// awaitSessions waits until all sessions have ended, or the deadline.
func (s *Server) awaitSessions(deadline time.Time) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		s.mu.Lock()
		left, changed := len(s.sessions), s.changed
		s.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		}
	}
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// leaveIfDraining makes the session leave when the server stops and no hold
// keeps it; it reports whether that is so.
func (s *session) leaveIfDraining() bool {
	if !s.server.isDraining() || s.isHolder() {
		return false
	}
	s.leave()
	return true
}

// leave makes the loop read no more: calls in flight are answered, then the
// connection closes. A command that blocks in Redis is not waited for.
func (s *session) leave() {
	s.leaving.Store(true)
	if s.blocked.Load() != nil {
		s.kill("server stops", false)
		return
	}
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
}
