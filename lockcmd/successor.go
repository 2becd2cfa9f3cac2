package lockcmd

import (
	"context"
	"slices"
	"time"
)

// With LOCK.NOTIFY, a client that lost a lock and keeps its connection is told who gets the lock
// next. A grant through this Leash is reported at once. For others, Leash polls Redis.

const (
	maxSuccessorWaits = 1024        // lost holds that one Leash tracks
	successorTimeout  = time.Minute // how long it tracks one
)

// awaitSuccessor begins to look for the next holder after the loss of h.
func (s *Service) awaitSuccessor(h *hold) {
	if !h.carrier.notifies.Load() || h.mode() == permit {
		return
	}
	s.mu.Lock()
	room := s.successorWaits.Load() < maxSuccessorWaits
	if room {
		s.successorWaits.Add(1)
		s.awaitingSuccessor[h.lock()] = append(s.awaitingSuccessor[h.lock()], h)
	}
	s.mu.Unlock()
	if room && !s.spawn(func() { s.pollSuccessor(h) }) {
		s.stopAwaitingSuccessor(h)
	}
}

// stopAwaitingSuccessor ends that. It returns false if it had ended before.
func (s *Service) stopAwaitingSuccessor(h *hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.awaitingSuccessor[h.lock()]
	i := slices.Index(list, h)
	if i < 0 {
		return false
	}
	s.successorWaits.Add(-1)
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(s.awaitingSuccessor, h.lock())
	} else {
		s.awaitingSuccessor[h.lock()] = list
	}
	return true
}

// reportSuccessor tells clients that lost the lock of h, which was just granted.
func (s *Service) reportSuccessor(h *hold) {
	if s.successorWaits.Load() == 0 {
		return
	}
	s.mu.Lock()
	lost := slices.Clone(s.awaitingSuccessor[h.lock()])
	s.mu.Unlock()
	for _, l := range lost {
		if h.conflictsWith(l) && s.stopAwaitingSuccessor(l) && l.carrier != h.carrier {
			l.push(grantedNotice, h.token)
		}
	}
}

// conflictsWith reports whether h and l, which was lost, cannot be held together.
func (h *hold) conflictsWith(l *hold) bool { return !(h.mode().shared && l.mode().shared) }

// pollSuccessor asks Redis once a second who has got the lock after h.
func (s *Service) pollSuccessor(h *hold) {
	defer s.stopAwaitingSuccessor(h)
	for limit := time.Now().Add(successorTimeout); time.Now().Before(limit); {
		if !s.sleep(context.Background(), s.nextAttempt(result{}, 0.5)) || !s.wantsSuccessor(h) {
			return
		}
		info, err := s.inspect(h.lock(), time.Now().Add(time.Second))
		if err != nil {
			continue
		}
		if token, ok := info.successorOf(h); ok {
			if s.stopAwaitingSuccessor(h) {
				h.push(grantedNotice, token)
			}
			return
		}
	}
}

// wantsSuccessor reports whether the client of h still wants to know.
func (s *Service) wantsSuccessor(h *hold) bool {
	if !h.carrier.notifies.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.awaitingSuccessor[h.lock()], h)
}

// successorOf is the token of the hold that follows h. It is 0 for a hold without a token, such as
// Redisson's.
func (info inspection) successorOf(h *hold) (token int64, ok bool) {
	for _, f := range info.holds {
		if f.record.token > h.token && f.record.carrier != h.carrier.name && !(f.mode.shared && h.mode().shared) {
			return f.record.token, true
		}
	}
	for _, f := range info.others {
		if !(f.mode.shared && h.mode().shared) {
			return 0, true
		}
	}
	return 0, false
}
