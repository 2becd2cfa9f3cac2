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

// callSession is a session as those packages see it that run its calls and write its replies.
type callSession struct{ *session }

var (
	_ client.Owner     = callSession{}
	_ call.Session     = callSession{}
	_ route.Session    = callSession{}
	_ blocking.Session = callSession{}
)

// Wrote implements client.Owner.
func (s callSession) Wrote() { s.calls.WroteLocked() }

// OutputDropped implements client.Owner.
func (s callSession) OutputDropped(n int) { s.server.garbage.add(n + s.calls.DroppedLocked()) }

// Submit implements call.Session.
func (s callSession) Submit(n *links.Node, replica bool, c *links.Request) {
	s.router.Submit(n, replica, c)
}

// BeforeBarrier implements route.Session.
func (s callSession) BeforeBarrier() { s.updateDescription() }

// Source implements route.Session.
func (s callSession) Source() call.Source { return s.input.batch }

// MayReadReplicas implements route.Session.
func (s callSession) MayReadReplicas() bool {
	return s.modes == 0 && s.tx == nil && !s.tracking.On() && !s.conn.Guarded()
}

// Cache implements route.Session.
func (s callSession) Cache() route.Cache { return s.tracking.Cache() }

// AwaitQueued implements blocking.Session.
func (s callSession) AwaitQueued() bool {
	s.updateDescription()
	return s.tx.AwaitQueued()
}

// HasLocks implements blocking.Session.
func (s callSession) HasLocks() bool { return s.isHolder() }

// ReleasesLocks implements blocking.Session.
func (s callSession) ReleasesLocks() bool {
	return s.isHolder() && s.endOfLocks() == lockcmd.Release
}

// Replied implements call.Session.
func (s callSession) Replied(n *links.Node, c *call.Call) { s.tracking.Replied(n, c) }

// Redirected implements call.Session.
func (s callSession) Redirected(n *links.Node, c *call.Call, uncached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.router.WroteElsewhereLocked(n)
	if uncached && s.router.Lane.RESP3 {
		c.FollowLocked([]byte(tracking.InvalidateAll))
	}
}

// Slow implements call.Session.
func (s callSession) Slow(request []byte, n *links.Node, queued, answered time.Duration) {
	s.server.relaying.Slow.Add(slowlog.Entry{
		At: time.Now(), Client: s.clientName(), User: s.user(), Args: slowlog.ArgumentsOf(request), Queued: queued,
		Redis: answered, Node: n.Addr,
	})
}

// Failed implements call.Session.
func (s callSession) Failed(class uint8) { s.server.stats.errors[class].Add(1) }

// Refused implements call.Session.
func (s callSession) Refused(code []byte) { s.server.stats.redirects.count(string(code)) }

// IdleLocked implements call.Session.
func (s callSession) IdleLocked() { s.locks.RestartSilence() }

// Take implements links.Permit. After the loss of a lock, the session sends nothing more.
func (s callSession) Take() bool { return !s.end.Dropped() }

// Until implements links.Permit. Nothing is sent after the end of a hold that the session relies
// on (rule R27). It takes no mutex.
func (s callSession) Until() *time.Time {
	if carrier := s.locks.Carrier(); carrier != nil {
		return carrier.SafeUntil()
	}
	return nil
}

// Overdue implements links.Permit. It ends the session if the safe time of one of its locks is
// over. Otherwise Until is later afterwards.
func (s callSession) Overdue() {
	if carrier := s.locks.Carrier(); carrier != nil {
		carrier.EndOverdue()
	}
}
