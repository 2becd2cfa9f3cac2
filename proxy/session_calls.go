package proxy

import (
	"time"

	"leash/lockcmd"
	"leash/proxy/blocking"
	"leash/proxy/call"
	"leash/proxy/client"
	"leash/proxy/links"
	"leash/proxy/route"
	"leash/proxy/slowlog"
	"leash/proxy/tracking"
)

var (
	_ client.Owner     = (*session)(nil)
	_ call.Session     = (*session)(nil)
	_ route.Session    = (*session)(nil)
	_ blocking.Session = (*session)(nil)
)

// Go implements client.Owner and call.Session.
func (s *session) Go(what string, f func()) bool {
	return s.server.start(what, func() { s.guard(what, f) })
}

// Wrote implements client.Owner.
func (s *session) Wrote() { s.calls.WroteLocked() }

// OutputDropped implements client.Owner.
func (s *session) OutputDropped(n int) { s.server.garbage.add(n + s.calls.DroppedLocked()) }

// Submit implements call.Session.
func (s *session) Submit(n *links.Node, replica bool, c *links.Call) {
	s.router.Submit(n, replica, c)
}

// BeforeBarrier implements route.Session.
func (s *session) BeforeBarrier() { s.updateDescription() }

// Source implements route.Session.
func (s *session) Source() call.Source { return s.input.batch }

// MayReadReplicas implements route.Session.
func (s *session) MayReadReplicas() bool {
	return s.modes == 0 && s.tx == nil && !s.tracking.On() && !s.conn.Guarded()
}

// Cache implements route.Session.
func (s *session) Cache() route.Cache { return s.tracking.Cache() }

// AwaitQueued implements blocking.Session.
func (s *session) AwaitQueued() bool {
	s.updateDescription()
	return s.tx.AwaitQueued()
}

// ReleasesLocks implements blocking.Session.
func (s *session) ReleasesLocks() bool {
	return s.isHolder() && s.endOfLocks() == lockcmd.Release
}

// Replied implements call.Session.
func (s *session) Replied(n *links.Node, c *call.Call) { s.tracking.Replied(n, c) }

// Redirected implements call.Session.
func (s *session) Redirected(n *links.Node, c *call.Call, uncached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.router.WroteElsewhereLocked(n)
	if uncached && s.router.Lane.RESP3 {
		c.FollowLocked([]byte(tracking.InvalidateAll))
	}
}

// Slow implements call.Session.
func (s *session) Slow(request []byte, n *links.Node, queued, answered time.Duration) {
	s.server.relaying.Slow.Add(slowlog.Entry{
		At: time.Now(), Client: s.clientName(), User: s.user(), Args: slowlog.ArgumentsOf(request), Queued: queued,
		Redis: answered, Node: n.Addr,
	})
}

// Failed implements call.Session.
func (s *session) Failed(class uint8) { s.server.stats.errors[class].Add(1) }

// Refused implements call.Session.
func (s *session) Refused(code []byte) { s.server.stats.redirects.count(string(code)) }

// Sent implements client.Owner.
func (s *session) Sent(n int) { s.server.stats.outBytes.Add(int64(n)) }

// IdleLocked implements call.Session.
func (s *session) IdleLocked() { s.locks.RestartSilence() }

// Dropped implements links.Permit. After the loss of a lock, the session sends nothing more.
func (s *session) Dropped() bool { return s.end.Dropped() }

// Until implements links.Permit. Nothing is sent after the end of a hold that the session relies
// on (rule R27). It takes no mutex.
func (s *session) Until() *time.Time {
	if carrier := s.locks.Carrier(); carrier != nil {
		return carrier.SafeUntil()
	}
	return nil
}

// Overdue implements links.Permit. It ends the session if the safe time of one of its locks is
// over. Otherwise Until is later afterwards.
func (s *session) Overdue() {
	if carrier := s.locks.Carrier(); carrier != nil {
		carrier.EndOverdue()
	}
}
