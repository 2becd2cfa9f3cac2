package lockcmd

import (
	"slices"
	"time"
)

// vigil is who waits for the end of a hold of this Leash. It is told once: the reason of the loss,
// "" when the hold has ended and nobody need mind, or movedText when it hangs on another connection
// now.
type vigil chan string

// afar is what is known of those who wait on other Leashes for the end of a hold.
type afar uint8

const (
	unwatched afar = iota
	watched        // somebody does
	// it has been said how the hold ended, or is about to be: who comes now is too late
	told
)

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

// watchedFromAfar notes that somebody waits for the end of h and will look for a tombstone: on
// another Leash, or because he breaks it. It returns false when that comes too late; the release of
// one that was lost may be yet to come.
func (h *hold) watchedFromAfar() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	h.afar = max(h.afar, watched)
	return h.afar == watched
}

// tellEnd tells those who watch h how it ended, as a vigil is told; a second time there is nobody
// left to tell.
func (h *hold) tellEnd(reason string) {
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
	vigils, seeks := h.dismiss(text)
	for _, v := range vigils {
		v <- reason // has room, for each is told once
	}
	if seeks {
		h.engrave(text)
	}
}

// tellLeft tells those who watch h that its connection is gone, and that it is left to run out. Its
// owner may yet take it over, so they look in Redis from now on; when it is not there any more they
// find that nobody minds, unless BREAK says so. A lease goes on as it was: how it ends they see.
func (h *hold) tellLeft() {
	h.carrier.mu.Lock()
	lease := h.lease
	h.carrier.mu.Unlock()
	text := leftText
	if lease {
		text = ""
	}
	vigils, seeks := h.dismiss(text)
	for _, v := range vigils {
		v <- movedText
	}
	if seeks || text != "" && len(vigils) > 0 {
		h.engrave(text)
	}
}

// dismiss is who watches h on this Leash, and whether somebody on another seeks the text; not if it
// is "". From now on nobody watches it, and who asks later is told the text as well.
func (h *hold) dismiss(text string) (vigils []vigil, seeks bool) {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	before := h.afar
	if before == told {
		return nil, false
	}
	h.afar = told
	if text != "" && h.mode() != permit {
		h.carrier.service.lately.add(lateEnd{h.lock(), heardOf{h.token, h.carrier.name}, text})
	}
	vigils = h.rare().vigils
	if vigils != nil {
		h.extra.vigils = nil
	}
	return vigils, before == watched && text != ""
}

// engrave leaves a tombstone that says to other Leashes how h ended, or is about to, while the
// caller goes on; and has them look, for who ends a hold by giving it to the next one says nothing
// on its channel.
func (h *hold) engrave(text string) {
	s := h.carrier.service
	h.carrier.mu.Lock()
	keep := 2 * max(h.ttl, s.cfg.WatchdogTimeout)
	h.carrier.mu.Unlock()
	s.spawn(func() {
		s.engrave(h.lock(), heardOf{h.token, h.carrier.name}, text, keep, h.mode().channel(h.key()), s.cfg.publishMode())
	})
}

// engrave leaves a tombstone, and tells on a channel, in ways to publish, that it is there. Without
// an answer those who wait find out by themselves, a little less exactly. A hold that is said to be
// left to run out must be there: one that was ended before was lost, though its Leash has not found
// that out.
func (s *Service) engrave(lock lockID, of heardOf, text string, keep time.Duration, tells ...string) {
	until := time.Now().Add(maxAttempt)
	if text == leftText {
		l, err := s.inspect(lock, until)
		if f, ok := l.find(options{token: of.token}); err != nil || !ok || f.record.carrier != of.carrier {
			return
		}
	}
	s.number(&request{
		script: engraveScript, db: lock.db, keys: []string{tombstoneKey(lock.key, of.token, of.carrier)},
		args: append(words(text, keep.Milliseconds()), tells...),
	}, until)
}
