package lockcmd

import (
	"context"
	"slices"
	"time"
)

// Who has lost a lock and whose connection stays open is told who gets it next (LOCK.NOTIFY): at
// once when that is through this Leash, else by looking.

const (
	maxBereft    = 1024        // who are waited for on one Leash
	heirPatience = time.Minute // for how long one is looked for
)

// bereave notes that h was lost, and looks for who gets the lock.
func (s *Service) bereave(h *hold) {
	if !h.carrier.notifies.Load() || h.mode() == permit {
		return
	}
	s.mu.Lock()
	room := s.grieving.Load() < maxBereft
	if room {
		s.grieving.Add(1)
		s.bereft[h.lock()] = append(s.bereft[h.lock()], h)
	}
	s.mu.Unlock()
	if room && !s.spawn(func() { s.seekHeir(h) }) {
		s.console(h)
	}
}

// console ends the looking for who got the lock after h. It reports false when it has ended before.
func (s *Service) console(h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.bereft[h.lock()]
	i := slices.Index(list, h)
	if i < 0 {
		return false
	}
	s.grieving.Add(-1)
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(s.bereft, h.lock())
	} else {
		s.bereft[h.lock()] = list
	}
	return true
}

// inherit tells those who have lost the lock of h, which was just granted.
func (s *Service) inherit(h *hold) {
	if s.grieving.Load() == 0 {
		return
	}
	s.mu.Lock()
	lost := slices.Clone(s.bereft[h.lock()])
	s.mu.Unlock()
	for _, l := range lost {
		if h.succeeds(l) && s.console(l) && l.carrier != h.carrier {
			l.say(grantedNotice, h.token)
		}
	}
}

// succeeds reports whether l, which was lost, could not be held together with h.
func (h *hold) succeeds(l *hold) bool { return !(h.mode().shared && l.mode().shared) }

// seekHeir looks in Redis who has got the lock after h, once a second.
func (s *Service) seekHeir(h *hold) {
	defer s.console(h)
	for limit := time.Now().Add(heirPatience); time.Now().Before(limit); {
		if !s.rest(context.Background(), s.lookAgain(result{}, 0.5)) || !s.seeksHeir(h) {
			return
		}
		l, err := s.inspect(h.lock(), time.Now().Add(time.Second))
		if err != nil {
			continue
		}
		if token, ok := l.heir(h); ok {
			if s.console(h) {
				h.say(grantedNotice, token)
			}
			return
		}
	}
}

// seeksHeir reports whether h's client still wants to know.
func (s *Service) seeksHeir(h *hold) bool {
	if !h.carrier.notifies.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.bereft[h.lock()], h)
}

// heir is the token of who holds the lock in place of h, 0 for one who has none, as a client of
// Redisson's.
func (l look) heir(h *hold) (token int64, ok bool) {
	for _, f := range l.holds {
		if f.record.token > h.token && f.record.carrier != h.carrier.name && !(f.mode.shared && h.mode().shared) {
			return f.record.token, true
		}
	}
	for _, f := range l.others {
		if !(f.mode.shared && h.mode().shared) {
			return 0, true
		}
	}
	return 0, false
}
