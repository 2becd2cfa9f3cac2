package lockcmd

import (
	"slices"
	"time"
)

// vigil is who waits for the end of a hold of this Leash. It is told once: the reason of the loss, "" when the hold has ended and
// nobody need mind, or movedText when it hangs on another connection now.
type vigil chan string

// watchEnd tells of the end of h; nil when it is over or lost already.
func (h *hold) watchEnd() vigil {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if h.state == over || h.evicted {
		return nil
	}
	v := make(vigil, 1)
	h.more().vigils = append(h.more().vigils, v)
	return v
}

func (h *hold) unwatch(v vigil) {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	for i, other := range h.rare().vigils {
		if other == v {
			h.extra.vigils = slices.Delete(h.extra.vigils, i, i+1)
			return
		}
	}
}

// watchedFromAfar notes that somebody on another Leash waits for the loss of h. It returns false when h is over or lost already, for then that comes
// too late: the end of its release, which is yet to come, is not how it ended.
func (h *hold) watchedFromAfar() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	there := h.state != over && !h.evicted
	h.watched = h.watched || there
	return there
}

// tellEnd tells those who watch h how it ended, as a vigil is told; a second time there is nobody left to tell.
func (h *hold) tellEnd(reason string) {
	vigils, watched, keep := h.dismiss()
	for _, v := range vigils {
		v <- reason // has room, for each is told once
	}
	if watched && reason != movedText {
		text := releasedText
		if reason != "" {
			text = lostText + " " + reason
		}
		h.carrier.service.spawn(func() { h.engrave(text, keep) })
	}
}

// tellLeft tells those who watch h that its connection is gone, and that it is left to run out. Its owner may yet take it over, so they
// look in Redis from now on; when it is not there any more they find that nobody minds, unless BREAK says so. A lease goes on as it was: how it
// ends they see.
func (h *hold) tellLeft() {
	vigils, watched, keep := h.dismiss()
	for _, v := range vigils {
		v <- movedText
	}
	h.carrier.mu.Lock()
	lease := h.lease
	h.carrier.mu.Unlock()
	if !lease && (watched || len(vigils) > 0) {
		h.carrier.service.spawn(func() { h.engrave(leftText, keep) })
	}
}

// dismiss is who watches h on this Leash, whether somebody does on another, and for how long to keep for them how it ended. From now on nobody
// does.
func (h *hold) dismiss() (vigils []vigil, watched bool, keep time.Duration) {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	vigils, watched = h.rare().vigils, h.watched
	h.watched = false
	if vigils != nil {
		h.extra.vigils = nil
	}
	return vigils, watched, 2 * max(h.ttl, h.carrier.service.cfg.WatchdogTimeout)
}

// engrave leaves a tombstone that says to other Leashes how h ended.
func (h *hold) engrave(text string, keep time.Duration) {
	h.carrier.service.engrave(h.lock(), heardOf{h.token, h.carrier.name}, text, keep)
}

// engrave leaves a tombstone. Without an answer those who wait find out by themselves, a little less exactly.
func (s *Service) engrave(lock lockID, of heardOf, text string, keep time.Duration) {
	s.number(&request{
		script: engraveScript, db: lock.db, keys: []string{tombstoneKey(lock.key, of.token, of.carrier)}, args: words(text, keep.Milliseconds()),
	}, time.Now().Add(maxAttempt))
}
