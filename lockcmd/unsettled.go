package lockcmd

import (
	"slices"
	"time"
)

// unsettled is an owner's hold that may have moved to a carrier, or is being put back there: until
// that is settled its owner's next request about it waits. It would find a hold in Redis that
// nobody knows of here, or one that is about to end.
type unsettled struct {
	lock  lockID
	mode  *mode
	owner string
	done  chan struct{}
}

// unsettle makes an owner's requests about its hold of a lock wait until settled is called.
func (c *Carrier) unsettle(lock lockID, m *mode, owner string) (settled func()) {
	u := &unsettled{lock, m, owner, make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsettled = append(c.unsettled, u)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unsettled = slices.DeleteFunc(c.unsettled, func(other *unsettled) bool { return other == u })
		close(u.done)
	}
}

// awaitSettled waits until nothing about an owner's hold of a lock is unsettled, but no longer than
// until. It reports whether that is so.
func (c *Carrier) awaitSettled(lock lockID, m *mode, owner string, until time.Time) bool {
	for {
		u := c.pending(lock, m, owner)
		if u == nil {
			return true
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-u.done:
			timer.Stop()
			continue
		case <-timer.C:
		case <-c.service.stop:
		}
		timer.Stop()
		return false
	}
}

func (c *Carrier) pending(lock lockID, m *mode, owner string) *unsettled {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.unsettled {
		if u.lock == lock && u.owner == owner && u.mode.like(m) {
			return u
		}
	}
	return nil
}
