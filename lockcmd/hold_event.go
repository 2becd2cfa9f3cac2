package lockcmd

import (
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/script"
)

// Leashes send each other hold events on their own channels, about holds that they ended or moved.
// The text is kind, token, carrier and key, with one space between. An event may be lost or forged,
// so Redis is asked before anything is done about it (R25).

func holdEventText(how string, token int64, carrier, key string) string {
	return how + " " + strconv.FormatInt(token, 10) + " " + carrier + " " + key
}

const (
	pendingEventTTL  = 10 * time.Second // an unknown grant counts as lost after that
	maxPendingEvents = 4096
)

// holdRef names the hold of an event.
type holdRef struct {
	token   int64
	carrier string
}

// inRedis is the hold of that lock, for a call of a script.
func (of holdRef) inRedis(lock lockID) script.Ref {
	return script.Ref{Lock: lock.inRedis(), Token: of.token, Carrier: of.carrier}
}

// pendingEvents are events of a hold that this Leash does not know yet. An event may overtake the
// reply to the grant.
type pendingEvents struct {
	kinds []string
	at    time.Time
}

// receiveEvent handles the text of one event.
func (s *Service) receiveEvent(event string) {
	f := strings.SplitN(event, " ", 4)
	if len(f) != 4 {
		return
	}
	token, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return
	}
	if f[0] == turnEvent {
		s.beginTurn(lockID{int(token), f[3]}, f[2])
		return
	}
	of := holdRef{token, f[2]}
	switch h := s.findHoldOrKeep(f[0], of, f[3]); {
	case h != nil:
		s.handleEvent(h, f[0])
	case f[0] == watchedEvent, f[0] == brokenText: // the hold has ended
		s.answerLateWatcher(of)
	}
}

// findHoldOrKeep finds the hold of an event in any database, because events do not name the
// database. Without a hold it keeps the event for a grant to come.
func (s *Service) findHoldOrKeep(how string, of holdRef, key string) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.holds.of(key) {
		if h.token == of.token && h.carrier.name == of.carrier {
			return h
		}
	}
	if script.CarrierLeash(of.carrier) != s.uuid || how == wantedEvent && s.notifying.Load() == 0 {
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

// deliverPendingEvents handles the events that came before h was registered.
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

// handleEvent acts on an event about h. For most kinds the watchdog checks h.
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
