package lockcmd

import "sync"

// maxLately is how many ends are remembered: with 10,000 a second, those of most of the last one.
const maxLately = 8192

// lately is how the last holds of this Leash have ended. Somebody on another one who has just begun
// to wait for the end of a hold may be heard of when it is over already, and is told then. Of what
// is not here nothing is said. Safe for concurrent use; its mutex is taken behind a carrier's.
type lately struct {
	mu   sync.Mutex
	ends []lateEnd // the oldest is at next, once there are as many as there may be
	next int
}

// lateEnd is a tombstone that nobody has asked for, as yet.
type lateEnd struct {
	lock lockID
	of   heardOf
	text string
}

func (l *lately) add(e lateEnd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ends) < maxLately {
		l.ends = append(l.ends, e)
		return
	}
	l.ends[l.next] = e
	l.next = (l.next + 1) % maxLately
}

// find looks through all of them, the newest first: few ask too late.
func (l *lately) find(of heardOf) (e lateEnd, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.ends {
		if e = l.ends[(l.next+len(l.ends)-1-i)%len(l.ends)]; e.of == of {
			return e, true
		}
	}
	return lateEnd{}, false
}

// tellLate leaves a tombstone for who has asked too late how a hold ends, if that is known yet.
func (s *Service) tellLate(of heardOf) {
	if e, ok := s.lately.find(of); ok {
		s.spawn(func() { s.engrave(e.lock, of, e.text, 2*s.cfg.WatchdogTimeout) })
	}
}
