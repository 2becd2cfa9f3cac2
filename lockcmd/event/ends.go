package event

import (
	"sync"

	"leash/lockcmd/script"
)

// maxEnds is how many ends are remembered: about a second's, with 10,000 a second.
const maxEnds = 8192

// Ends says how the last holds of this Leash ended. A client on another Leash may begin to wait for
// the end of a hold that is already over. Leash then writes the tombstone from here. For a hold
// that is not here it writes none. It is safe for concurrent use.
type Ends struct {
	mu   sync.Mutex
	ends []End // the oldest is at next, once the slice is full
	next int
}

// End is a tombstone that nobody has asked for yet.
type End struct {
	Hold script.Ref
	Mode *script.Mode
	Text string
}

// Add remembers an end, and forgets the oldest one if there are too many.
func (l *Ends) Add(e End) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ends) < maxEnds {
		l.ends = append(l.ends, e)
		return
	}
	l.ends[l.next] = e
	l.next = (l.next + 1) % maxEnds
}

// Find returns the end of the hold with that token and carrier. It searches all, newest first, and
// is seldom called.
func (l *Ends) Find(token int64, carrier string) (e End, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.ends {
		e = l.ends[(l.next+len(l.ends)-1-i)%len(l.ends)]
		if e.Hold.Token == token && e.Hold.Carrier == carrier {
			return e, true
		}
	}
	return End{}, false
}
