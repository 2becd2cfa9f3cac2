package lockcmd

import (
	"strconv"
	"strings"
	"time"
)

// News is what Leashes tell one another on their channels of holds they ended or moved: how, token,
// carrier and key, with one space between. It may be lost or forged; Redis is asked before anything
// is done about it (R25).

func holdEventText(how string, token int64, carrier, key string) string {
	return how + " " + strconv.FormatInt(token, 10) + " " + carrier + " " + key
}

const (
	pendingEventTTL  = 10 * time.Second // a grant that is not known by then has been taken for lost
	maxPendingEvents = 4096
)

// holdRef is the hold that a piece of news is about.
type holdRef struct {
	token   int64
	carrier string
}

// pendingEvents is news of a hold that this Leash does not know yet: it may overtake the reply to the
// grant.
type pendingEvents struct {
	kinds []string
	at    time.Time
}

// receiveEvent takes a piece of news.
func (s *Service) receiveEvent(event string) {
	f := strings.SplitN(event, " ", 4)
	if len(f) != 4 {
		return
	}
	token, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return
	}
	of := holdRef{token, f[2]}
	switch h := s.findHoldOrKeep(f[0], of, f[3]); {
	case h != nil:
		s.handleEvent(h, f[0])
	case f[0] == watchedEvent, f[0] == brokenText: // too late
		s.answerLateWatcher(of)
	}
}

// findHoldOrKeep is the present hold of key that the news is about, whatever its database, which the news
// does not name. When there is none, the news is kept for a hold of ours to come.
func (s *Service) findHoldOrKeep(how string, of holdRef, key string) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.holds.of(key) {
		if h.token == of.token && h.carrier.name == of.carrier {
			return h
		}
	}
	if carrierLeash(of.carrier) != s.uuid || how == wantedEvent && s.notifying.Load() == 0 {
		return nil
	}
	for known, e := range s.pendingEvents {
		if len(s.pendingEvents) >= maxPendingEvents || time.Since(e.at) > pendingEventTTL {
			delete(s.pendingEvents, known)
		}
	}
	e := s.pendingEvents[of]
	if len(e.kinds) < 8 {
		e.kinds = append(e.kinds, how)
	}
	e.at = time.Now()
	s.pendingEvents[of] = e
	return nil
}

// deliverPendingEvents heeds what was heard of h before it was in the books.
func (s *Service) deliverPendingEvents(h *hold) {
	of := holdRef{h.token, h.carrier.name}
	s.mu.Lock()
	e := s.pendingEvents[of]
	delete(s.pendingEvents, of)
	s.mu.Unlock()
	for _, how := range e.kinds {
		s.handleEvent(h, how)
	}
}

// handleEvent lets the watchdog look at h, or us, when it is to be broken: the watchdog would find it
// there.
func (s *Service) handleEvent(h *hold, how string) {
	switch how {
	case brokenText:
		s.spawn(func() { s.obeyBreak(h) })
	case watchedEvent:
		if !h.noteRemoteWatch() {
			s.answerLateWatcher(holdRef{h.token, h.carrier.name})
		}
	case wantedEvent:
		h.reportWanted()
	case decrementedEvent:
		s.spawn(h.recount)
	default:
		s.watchdog.Check(&h.watch)
	}
}
