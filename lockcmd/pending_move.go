package lockcmd

import (
	"slices"
	"sync"
	"time"

	"leash/lockcmd/script"
)

// pendingMove is an owner's hold that may have moved to a carrier, or is being put back there. The
// owner's next request about it waits for that. Otherwise it would find a hold in Redis that this
// Leash does not know, or that is about to end.
type pendingMove struct {
	lock  script.Lock
	mode  *script.Mode
	owner string
	done  chan struct{}
}

// pendingMoves are those of a carrier. It is safe for concurrent use.
type pendingMoves struct {
	mu    sync.Mutex
	moves []*pendingMove
}

// beginMove makes requests of an owner about its hold wait until moveDone is called.
func (c *Carrier) beginMove(lock script.Lock, m *script.Mode, owner string) (moveDone func()) {
	pm := &pendingMove{lock, m, owner, make(chan struct{})}
	c.pendingMoves.mu.Lock()
	defer c.pendingMoves.mu.Unlock()
	c.pendingMoves.moves = append(c.pendingMoves.moves, pm)
	return func() {
		c.pendingMoves.mu.Lock()
		defer c.pendingMoves.mu.Unlock()
		i := slices.Index(c.pendingMoves.moves, pm)
		c.pendingMoves.moves = slices.Delete(c.pendingMoves.moves, i, i+1)
		close(pm.done)
	}
}

// awaitMoves waits until the owner's hold has no pending move, at most until the given time. It
// reports whether that is so.
func (c *Carrier) awaitMoves(lock script.Lock, m *script.Mode, owner string, until time.Time) bool {
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
		case <-c.service.redis.Stopped:
		}
		timer.Stop()
		return false
	}
}

func (c *Carrier) pendingMoveOf(lock script.Lock, m *script.Mode, owner string) *pendingMove {
	c.pendingMoves.mu.Lock()
	defer c.pendingMoves.mu.Unlock()
	for _, pm := range c.pendingMoves.moves {
		if pm.lock == lock && pm.owner == owner && pm.mode.SameInRedis(m) {
			return pm
		}
	}
	return nil
}
