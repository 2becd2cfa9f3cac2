package event

import (
	"sync"
	"time"
)

const (
	pendingTTL = 10 * time.Second // an unknown grant counts as lost after that
	maxPending = 4096             // holds
	maxKinds   = 8                // of events for one hold
)

// Pending keeps events of holds that this Leash does not know yet, because an event may overtake
// the reply to the grant. It is safe for concurrent use.
type Pending struct {
	mu     sync.Mutex
	events map[holdID]pendingEvents
}

type holdID struct {
	token   int64
	carrier string
}

type pendingEvents struct {
	kinds []string
	at    time.Time
}

// Keep keeps an event. It forgets old ones, and some others if there are too many.
//
// The receiver of an event calls Keep when it does not find the hold, and then looks for the hold
// once more. Whoever registers a hold calls Take after that. So one of them has the event.
func (p *Pending) Keep(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events == nil {
		p.events = make(map[holdID]pendingEvents)
	}
	for id, known := range p.events {
		if len(p.events) >= maxPending || time.Since(known.at) > pendingTTL {
			delete(p.events, id)
		}
	}
	id := holdID{e.Token, e.Carrier}
	known := p.events[id]
	if len(known.kinds) < maxKinds {
		known.kinds = append(known.kinds, e.Kind)
	}
	known.at = time.Now()
	p.events[id] = known
}

// Take returns and removes the kinds of the events that were kept for a hold, the first one first.
func (p *Pending) Take(token int64, carrier string) (kinds []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := holdID{token, carrier}
	kinds = p.events[id].kinds
	delete(p.events, id)
	return kinds
}

// Holds is the number of holds with events.
func (p *Pending) Holds() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.events)
}
