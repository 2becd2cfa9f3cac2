package lockcmd

import "sync"

// maxRecentEnds is how many ends are remembered: with 10,000 a second, those of most of the last one.
const maxRecentEnds = 8192

// recentEnds is how the last holds of this Leash have ended. Somebody on another one who has just begun
// to wait for the end of a hold may be heard of when it is over already, and is told then. Of what
// is not here nothing is said. Safe for concurrent use; its mutex is taken behind a carrier's.
type recentEnds struct {
	mu   sync.Mutex
	ends []recentEnd // the oldest is at next, once there are as many as there may be
	next int
}

// recentEnd is a tombstone that nobody has asked for, as yet.
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

// find looks through all of them, the newest first: few ask too late.
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

// answerLateWatcher leaves a tombstone for who has asked too late how a hold ends, if that is known yet.
func (s *Service) answerLateWatcher(of holdRef) {
	if e, ok := s.recentEnds.find(of); ok {
		s.spawn(func() { s.writeTombstone(e.lock, of, e.text, 2*s.cfg.WatchdogTimeout) })
	}
}
