package hold

import (
	"slices"

	"leash/lockcmd/event"
)

// remoteWatch is whether waiters on other Leashes want to know how a hold ends.
type remoteWatch uint8

const (
	notWatched remoteWatch = iota
	watched                // somebody does
	// The end was reported, or is about to be. A new watcher is too late.
	watchAnswered
)

// WatchEnd watches for the end of h. end gets one value: the reason of a loss, "" for a regular
// end, or event.Moved when another connection has the hold now. It is nil when h is over or lost
// already.
func (h *Hold) WatchEnd() (end chan string) {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	if h.state == Over || h.remoteWatch == watchAnswered {
		return nil
	}
	end = make(chan string, 1)
	h.writeExtra().endWatchers = append(h.writeExtra().endWatchers, end)
	return end
}

// Unwatch ends what WatchEnd began.
func (h *Hold) Unwatch(end chan string) {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	if i := slices.Index(h.readExtra().endWatchers, end); i >= 0 {
		h.extra.endWatchers = slices.Delete(h.extra.endWatchers, i, i+1)
	}
}

// NoteRemoteWatch notes that somebody waits for the end of h and will read a tombstone: a client on
// another Leash, or a BREAK. It returns false when the end was reported before. The release of a
// lost hold may still follow.
func (h *Hold) NoteRemoteWatch() bool {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	h.remoteWatch = max(h.remoteWatch, watched)
	return h.remoteWatch == watched
}

// endTexts is what those who wait for the end of a hold are told: on this Leash, and by a tombstone
// on others, "" for none.
//
// If the connection is gone and the hold is left to expire, another connection may still take it
// over, so they ask Redis. When it is gone, it has ended regularly, unless BREAK says otherwise. A
// lease goes on as before, and its watchers see its end.
func (ch *Change) endTexts(lease bool) (here, tombstone string) {
	switch {
	case ch.Has(tellLoss):
		return ch.loss.reason, event.Lost + " " + ch.loss.reason
	case ch.Has(ReportReleased):
		return "", event.Released
	case ch.Has(LeaveToExpire) && !lease:
		return event.Moved, event.Left
	}
	return event.Moved, "" // a move wrote the tombstone
}

// takeEndWatchersLocked takes those who wait for the end of a hold and notes what later ones are
// told. Nobody watches the hold afterwards.
func (ch *Change) takeEndWatchersLocked() {
	h, before := ch.Hold, ch.Hold.remoteWatch
	if before == watchAnswered || !ch.Has(tellLoss|ReportReleased|ReportMoved|LeaveToExpire) {
		return
	}
	h.remoteWatch = watchAnswered
	here, text := ch.endTexts(h.flags.Lease)
	if text != "" && !h.IsPermit() {
		h.Carrier.registry.Ends.Add(event.End{Hold: h.Ref(), Mode: h.Mode(), Text: text})
	}
	if ch.watchers, ch.told = h.readExtra().endWatchers, here; ch.watchers != nil {
		h.extra.endWatchers = nil
	}
	if before == watched || text == event.Left && ch.watchers != nil {
		ch.Tombstone = text
	}
}
