package lockcmd

import (
	"slices"

	"leash/lockcmd/event"
	"leash/lockcmd/script"
)

// endWatcher waits for the end of a hold of this Leash. It gets one value: the reason of a loss, ""
// for a regular end, or event.Moved when another connection has the hold now.
type endWatcher chan string

// remoteWatch is whether waiters on other Leashes want to know how a hold ends.
type remoteWatch uint8

const (
	notWatched remoteWatch = iota
	watched                // somebody does
	// The end was reported, or is about to be. A new watcher is too late.
	watchAnswered
)

// watchEnd returns a watcher for the end of h, or nil when h is over or lost already.
func (h *hold) watchEnd() endWatcher {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if h.state == over || h.remoteWatch == watchAnswered {
		return nil
	}
	v := make(endWatcher, 1)
	h.writeExtra().endWatchers = append(h.writeExtra().endWatchers, v)
	return v
}

func (h *hold) unwatch(v endWatcher) {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	for i, other := range h.readExtra().endWatchers {
		if other == v {
			h.extra.endWatchers = slices.Delete(h.extra.endWatchers, i, i+1)
			return
		}
	}
}

// noteRemoteWatch notes that somebody waits for the end of h and will read a tombstone: a client on
// another Leash, or a BREAK. It returns false when the end was reported before. The release of a
// lost hold may still follow.
func (h *hold) noteRemoteWatch() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.remoteWatch = max(h.remoteWatch, watched)
	return h.remoteWatch == watched
}

// endTexts is what those who wait for the end of a hold are told: on this Leash, and by a tombstone
// on others, "" for none.
//
// If the connection is gone and the hold is left to expire, another connection may still take it
// over, so they ask Redis. When it is gone, it has ended regularly, unless BREAK says otherwise. A
// lease goes on as before, and its watchers see its end.
func (ch *change) endTexts(lease bool) (here, tombstone string) {
	switch {
	case ch.has(tellLoss):
		return ch.loss.reason, event.Lost + " " + ch.loss.reason
	case ch.has(reportReleased):
		return "", event.Released
	case ch.has(leaveToExpire) && !lease:
		return event.Moved, event.Left
	}
	return event.Moved, "" // a move wrote the tombstone
}

// takeEndWatchersLocked takes those who wait for the end of a hold and notes what later ones are
// told. Nobody watches the hold afterwards.
func (ch *change) takeEndWatchersLocked() {
	h, before := ch.hold, ch.hold.remoteWatch
	if before == watchAnswered || !ch.has(tellLoss|reportReleased|reportMoved|leaveToExpire) {
		return
	}
	h.remoteWatch = watchAnswered
	_, text := ch.endTexts(h.Lease)
	if text != "" && h.mode() != script.Permit {
		h.carrier.service.events.ends.Add(event.End{Hold: h.ref(), Text: text})
	}
	if ch.watchers = h.readExtra().endWatchers; ch.watchers != nil {
		h.extra.endWatchers = nil
	}
	ch.writes = text != "" && before == watched || text == event.Left && ch.watchers != nil
}

// tellEndWatchers tells those who wait for the end.
func (ch *change) tellEndWatchers() {
	here, tombstone := ch.endTexts(false) // a lease writes none
	for _, v := range ch.watchers {
		v <- here // never blocks: each watcher gets one value
	}
	if ch.writes {
		ch.hold.writeTombstone(tombstone)
	}
}

// writeTombstone writes in the background how h ended, for other Leashes. It also wakes them,
// because a hand-over publishes nothing on the lock's channel.
func (h *hold) writeTombstone(text string) {
	s := h.carrier.service
	h.carrier.mu.Lock()
	keep := 2 * max(h.ttl, s.cfg.WatchdogTimeout)
	h.carrier.mu.Unlock()
	s.spawn(func() {
		event.WriteTombstone(s.redis, h.ref(), text, keep, h.mode().Channel(h.key()))
	})
}
