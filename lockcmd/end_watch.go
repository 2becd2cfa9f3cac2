package lockcmd

import (
	"slices"
	"time"
)

// endWatcher is who waits for the end of a hold of this Leash. It is told once: the reason of the loss,
// "" when the hold has ended and nobody need mind, or movedText when it hangs on another connection
// now.
type endWatcher chan string

// remoteWatch is what is known of those who wait on other Leashes for the end of a hold.
type remoteWatch uint8

const (
	notWatched remoteWatch = iota
	watched                // somebody does
	// it has been said how the hold ended, or is about to be: who comes now is too late
	watchAnswered
)

// watchEnd tells of the end of h; nil when it is over or lost already.
func (h *hold) watchEnd() endWatcher {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if h.state == over || h.evicted {
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

// noteRemoteWatch notes that somebody waits for the end of h and will look for a tombstone: on
// another Leash, or because he breaks it. It returns false when that comes too late; the release of
// one that was lost may be yet to come.
func (h *hold) noteRemoteWatch() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.remoteWatch = max(h.remoteWatch, watched)
	return h.remoteWatch == watched
}

// reportEnd tells those who watch h how it ended, as a vigil is told; a second time there is nobody
// left to tell.
func (h *hold) reportEnd(reason string) {
	text := releasedText
	switch reason {
	case "":
		if h.wasEvicted() { // whoever has done that says so
			return
		}
	case movedText:
		text = "" // who has moved it says so
	default:
		text = lostText + " " + reason
	}
	watchers, seeks := h.takeEndWatchers(text)
	for _, v := range watchers {
		v <- reason // has room, for each is told once
	}
	if seeks {
		h.writeTombstone(text)
	}
}

// reportLeft tells those who watch h that its connection is gone, and that it is left to run out. Its
// owner may yet take it over, so they look in Redis from now on; when it is not there any more they
// find that nobody minds, unless BREAK says so. A lease goes on as it was: how it ends they see.
func (h *hold) reportLeft() {
	h.carrier.mu.Lock()
	lease := h.lease
	h.carrier.mu.Unlock()
	text := leftText
	if lease {
		text = ""
	}
	watchers, seeks := h.takeEndWatchers(text)
	for _, v := range watchers {
		v <- movedText
	}
	if seeks || text != "" && len(watchers) > 0 {
		h.writeTombstone(text)
	}
}

// takeEndWatchers is who watches h on this Leash, and whether somebody on another seeks the text; not if it
// is "". From now on nobody watches it, and who asks later is told the text as well.
func (h *hold) takeEndWatchers(text string) (watchers []endWatcher, seeks bool) {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	before := h.remoteWatch
	if before == watchAnswered {
		return nil, false
	}
	h.remoteWatch = watchAnswered
	if text != "" && h.mode() != permit {
		h.carrier.service.recentEnds.add(recentEnd{h.lock(), holdRef{h.token, h.carrier.name}, text})
	}
	watchers = h.readExtra().endWatchers
	if watchers != nil {
		h.extra.endWatchers = nil
	}
	return watchers, before == watched && text != ""
}

// writeTombstone leaves a tombstone that says to other Leashes how h ended, or is about to, while the
// caller goes on; and has them look, for who ends a hold by giving it to the next one says nothing
// on its channel.
func (h *hold) writeTombstone(text string) {
	s := h.carrier.service
	h.carrier.mu.Lock()
	keep := 2 * max(h.ttl, s.cfg.WatchdogTimeout)
	h.carrier.mu.Unlock()
	s.spawn(func() {
		s.writeTombstone(h.lock(), holdRef{h.token, h.carrier.name}, text, keep, h.mode().channel(h.key()), s.cfg.publishMode())
	})
}

// writeTombstone leaves a tombstone, and tells on a channel, in ways to publish, that it is there. Without
// an answer those who wait find out by themselves, a little less exactly. A hold that is said to be
// left to run out must be there: one that was ended before was lost, though its Leash has not found
// that out.
func (s *Service) writeTombstone(lock lockID, of holdRef, text string, keep time.Duration, tells ...string) {
	until := time.Now().Add(maxAttempt)
	if text == leftText {
		info, err := s.inspect(lock, until)
		if f, ok := info.find(options{token: of.token}); err != nil || !ok || f.record.carrier != of.carrier {
			return
		}
	}
	s.askInt(&scriptCall{
		script: tombstoneScript, db: lock.db, keys: []string{tombstoneKey(lock.key, of.token, of.carrier)},
		args: append(scriptArgs(text, keep.Milliseconds()), tells...),
	}, until)
}
