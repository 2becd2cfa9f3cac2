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

// owner is the session as its socket and its calls see it.
type owner session

var (
	_ client.Owner     = (*owner)(nil)
	_ call.Session     = (*owner)(nil)
	_ route.Session    = (*owner)(nil)
	_ blocking.Session = (*owner)(nil)
)

// Go implements client.Owner and call.Session.
func (o *owner) Go(what string, f func()) bool {
	s := (*session)(o)
	return s.server.start(what, func() { s.guard(what, f) })
}

// Wrote implements client.Owner.
func (o *owner) Wrote() { o.calls.WroteLocked() }

// OutputDropped implements client.Owner.
func (o *owner) OutputDropped(n int) { o.server.garbage.add(n + o.calls.DroppedLocked()) }

// Submit implements call.Session.
func (o *owner) Submit(n *links.Node, replica bool, c *links.Call) {
	o.router.Submit(n, replica, c)
}

// BeforeBarrier implements route.Session.
func (o *owner) BeforeBarrier() { (*session)(o).updateDescription() }

// Source implements route.Session.
func (o *owner) Source() call.Source { return o.input.batch }

// MayReadReplicas implements route.Session.
func (o *owner) MayReadReplicas() bool {
	return o.modes == 0 && o.tx == nil && !o.tracking.Load().On() && !o.conn.Guarded()
}

// Cache implements route.Session.
func (o *owner) Cache() route.Cache { return o.tracking.Load().Cache() }

// AwaitQueued implements blocking.Session.
func (o *owner) AwaitQueued() bool {
	(*session)(o).updateDescription()
	return o.tx.AwaitQueued()
}

// ReleasesLocks implements blocking.Session.
func (o *owner) ReleasesLocks() bool {
	s := (*session)(o)
	return s.isHolder() && s.endOfLocks() == lockcmd.Release
}

// Replied implements call.Session.
func (o *owner) Replied(n *links.Node, c *call.Call) { o.tracking.Load().Replied(n, c) }

// Redirected implements call.Session.
func (o *owner) Redirected(n *links.Node, c *call.Call, uncached bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.router.WroteElsewhereLocked(n)
	if uncached && o.router.Lane.RESP3 {
		c.FollowLocked([]byte(tracking.InvalidateAll))
	}
}

// Slow implements call.Session.
func (o *owner) Slow(request []byte, n *links.Node, queued, answered time.Duration) {
	s := (*session)(o)
	s.server.relaying.Slow.Add(slowlog.Entry{
		At: time.Now(), Client: s.clientName(), User: s.user(), Args: slowlog.ArgumentsOf(request), Queued: queued,
		Redis: answered, Node: n.Addr,
	})
}

// Failed implements call.Session.
func (o *owner) Failed(class uint8) { o.server.stats.errors[class].Add(1) }

// Refused implements call.Session.
func (o *owner) Refused(code []byte) { o.server.stats.redirects.count(string(code)) }

// Sent implements client.Owner.
func (o *owner) Sent(n int) { o.server.stats.outBytes.Add(int64(n)) }

// IdleLocked implements call.Session.
func (o *owner) IdleLocked() { o.locks.Load().RestartSilence() }

// End implements call.Session.
func (o *owner) End(reason string) { (*session)(o).kill(reason, false) }

// Fail implements call.Session.
func (o *owner) Fail() { (*session)(o).endFaulty() }

// Dropped implements links.Permit. After the loss of a lock, the session sends nothing more.
func (o *owner) Dropped() bool { return o.end.Dropped() }

// Until implements links.Permit. Nothing is sent after the end of a hold that the session relies
// on (rule R27). It takes no mutex.
func (o *owner) Until() *time.Time {
	if carrier := o.locks.Load().Carrier(); carrier != nil {
		return carrier.SafeUntil()
	}
	return nil
}

// Overdue implements links.Permit. It ends the session if the safe time of one of its locks is
// over. Otherwise Until is later afterwards.
func (o *owner) Overdue() {
	if carrier := o.locks.Load().Carrier(); carrier != nil {
		carrier.EndOverdue()
	}
}
