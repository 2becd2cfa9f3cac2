package hold

import "leash/lockcmd/script"

// Selector says which hold of a lock a command is about. A zero field allows any value.
type Selector struct {
	Token int64
	Owner string
	Mode  string // READ, WRITE or FAIR; "" for every mode of a lock
}

// PermitSelector is about one permit, or about any with "".
func PermitSelector(permit string) Selector {
	return Selector{Owner: permit, Mode: script.Permit.Option}
}

// Means reports whether h may be that hold. It does not block and takes no locks.
func (s Selector) Means(h *Hold) bool {
	return (s.Token == 0 || h.Token == s.Token) && (s.Owner == "" || h.IsOf(s.Owner)) && s.meansMode(h.Mode())
}

func (s Selector) meansMode(m *script.Mode) bool {
	return s.Mode == "" && m != script.Permit || s.Mode == m.Option
}

// Find returns the first hold of a lock in Redis that may be that hold.
func (s Selector) Find(info script.Inspection) (f script.Hold, ok bool) {
	for _, f := range info.Holds {
		if (s.Token == 0 || f.Record.Token == s.Token) && (s.Owner == "" || f.Owner == s.Owner) && s.meansMode(f.Mode) {
			return f, true
		}
	}
	return script.Hold{}, false
}

// EndedBefore reports whether the hold with the token ended before a present hold was granted. Then
// no new master can have forgotten it.
func (s Selector) EndedBefore(info script.Inspection) bool {
	return s.Token != 0 && info.EndedBefore(s.Token)
}

// Newest returns the carrier's newest hold of the lock for which match is true, or nil. match must
// not block and take no locks.
func (c *Carrier) Newest(lock script.Lock, match func(*Hold) bool) *Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newestLocked(lock, match)
}

// newestLocked searches the holds of the key or of the connection, whichever are fewer: a
// connection may have 100,000 holds, and a semaphore as many permits.
func (c *Carrier) newestLocked(lock script.Lock, match func(*Hold) bool) *Hold {
	own := func(h *Hold) bool { return h.Carrier == c && h.state != Over && h.Lock() == lock && match(h) }
	if h, ok := c.registry.findAmong(lock.Key, len(c.holds), own); ok {
		return h
	}
	for h := range c.holdsNewestFirstLocked() {
		if own(h) {
			return h
		}
	}
	return nil
}

// NewestReported is Newest for a client that may name the hold. It skips holds that the client has
// not been told of: a MACQUIRE may still give some back. It prefers a hold whose lease is not over.
func (c *Carrier) NewestReported(lock script.Lock, match func(*Hold) bool) *Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	reported := func(h *Hold) bool { return match(h) && !h.unreportedLocked() }
	if h := c.newestLocked(lock, func(h *Hold) bool { return reported(h) && !h.leaseOverLocked() }); h != nil {
		return h
	}
	return c.newestLocked(lock, reported)
}

// NewestInTheWay is Newest without holds that are being released.
func (c *Carrier) NewestInTheWay(lock script.Lock, match func(*Hold) bool) *Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newestLocked(lock, func(h *Hold) bool { return !h.state.IsEnding() && match(h) })
}
