package lockcmd

import "sync"

// maxRecentEnds is how many ends are remembered: about a second's, with 10,000 a second.
const maxRecentEnds = 8192

// recentEnds says how the last holds of this Leash ended. A client on another Leash may begin to
// wait for the end of a hold that is already over. Leash then writes the tombstone from here. For a
// hold that is not here it writes none. It is safe for concurrent use. Its mutex is taken after a
// carrier's.
type recentEnds struct {
	mu   sync.Mutex
	ends []recentEnd // the oldest is at next, once the slice is full
	next int
}

// recentEnd is a tombstone that nobody has asked for yet.
type recentEnd struct {
	lock lockID
	hold holdRef
	text string
}

func (l *recentEnds) add(e recentEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ends) < maxRecentEnds {
		l.ends = append(l.ends, e)
		return
	}
	l.ends[l.next] = e
	l.next = (l.next + 1) % maxRecentEnds
}

// find searches all, newest first. It is seldom called.
func (l *recentEnds) find(of holdRef) (e recentEnd, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.ends {
		if e = l.ends[(l.next+len(l.ends)-1-i)%len(l.ends)]; e.hold == of {
			return e, true
		}
	}
	return recentEnd{}, false
}

// answerLateWatcher writes the tombstone of a hold that ended before somebody asked, if its end is
// still known.
func (s *Service) answerLateWatcher(of holdRef) {
	if e, ok := s.recentEnds.find(of); ok {
		s.spawn(func() { s.writeTombstone(e.lock, of, e.text, 2*s.cfg.WatchdogTimeout, "") })
	}
}
