package lockcmd

import (
	"sync"

	"leash/lockcmd/script"
)

// presentHolds are the holds of this Leash: those of its carriers, and some that have just ended.
// It is safe for concurrent use. Its mutex may be taken after a carrier's.
type presentHolds struct {
	mu    sync.Mutex
	holds *index // guarded by mu
}

// find returns the newest present hold of the lock for which match is true, or nil.
func (p *presentHolds) find(lock script.Lock, match func(*hold) bool) *hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	for h := range p.holds.of(lock.Key) {
		if h.lock() == lock && match(h) {
			return h
		}
	}
	return nil
}

// findAmong returns the newest of at most that many holds of key for which match is true, or nil.
// ok is false when it found none and there are more holds.
func (p *presentHolds) findAmong(key string, most int, match func(*hold) bool) (found *hold, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for h := range p.holds.of(key) {
		if most--; most < 0 {
			return nil, false
		}
		if match(h) {
			return h, true
		}
	}
	return nil, true
}

func (p *presentHolds) index(h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds.add(h)
}

// unindex removes h, which no carrier has any more. Another hold may get its entry from now on.
func (p *presentHolds) unindex(h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds.table.At(h.entry) == h {
		p.holds.remove(h)
		p.holds.table.Remove(h.entry)
	}
}

// register gives h an entry.
func (p *presentHolds) register(h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.entry = p.holds.table.Add(h)
}

// holdAt is the hold with that entry.
func (p *presentHolds) holdAt(entry uint32) *hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds.table.At(entry)
}

// holdsAt are the holds with those entries.
func (p *presentHolds) holdsAt(entries []uint32) (holds []*hold) {
	holds = make([]*hold, len(entries))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, n := range entries {
		holds[i] = p.holds.table.At(n)
	}
	return holds
}

// ofLock returns the holds of a lock, newest first.
func (p *presentHolds) ofLock(lock script.Lock) (holds []*hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for h := range p.holds.of(lock.Key) {
		if h.lock() == lock {
			holds = append(holds, h)
		}
	}
	return holds
}

// part copies holds with entries above after to into, in the order of their entries. It returns how
// many there are, and the last entry that it looked at; more is false at the end of the table. The
// mutex is held for len(into) entries.
func (p *presentHolds) part(after uint32, into []*hold) (n int, last uint32, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := p.holds.table.Last()
	for last = after; last < end && last-after < uint32(len(into)); {
		last++
		if h := p.holds.table.At(last); h != nil {
			into[n] = h
			n++
		}
	}
	return n, last, last < end
}
