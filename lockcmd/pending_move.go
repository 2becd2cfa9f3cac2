package lockcmd

import (
	"slices"
	"time"
)

// pendingMove is an owner's hold that may have moved to a carrier, or is being put back there: until
// that is settled its owner's next request about it waits. It would find a hold in Redis that
// nobody knows of here, or one that is about to end.
type pendingMove struct {
	lock  lockID
	mode  *mode
	owner string
	done  chan struct{}
}

// beginMove makes an owner's requests about its hold of a lock wait until settled is called.
func (c *Carrier) beginMove(lock lockID, m *mode, owner string) (moveDone func()) {
	pm := &pendingMove{lock, m, owner, make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pendingMoves = append(c.pendingMoves, pm)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pendingMoves = slices.DeleteFunc(c.pendingMoves, func(other *pendingMove) bool { return other == pm })
		close(pm.done)
	}
}

// awaitMoves waits until nothing about an owner's hold of a lock is unsettled, but no longer than
// until. It reports whether that is so.
func (c *Carrier) awaitMoves(lock lockID, m *mode, owner string, until time.Time) bool {
	for {
		pm := c.pendingMoveOf(lock, m, owner)
		if pm == nil {
			return true
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-pm.done:
			timer.Stop()
			continue
		case <-timer.C:
		case <-c.service.stop:
		}
		timer.Stop()
		return false
	}
}

func (c *Carrier) pendingMoveOf(lock lockID, m *mode, owner string) *pendingMove {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pm := range c.pendingMoves {
		if pm.lock == lock && pm.owner == owner && pm.mode.sameInRedis(m) {
			return pm
		}
	}
	return nil
}
