package lockcmd

import (
	"context"
	"strings"
)

const notifyName = "LOCK.NOTIFY"

// What a client is told of its holds after LOCK.NOTIFY ON, as a push: "lock", one of these words,
// the key, and a token. Of a permit of a semaphore, which has none, the permit stands in its place.
const (
	lostNotice = "lost" // the hold with this token was lost
	// another connection has the lock now: by moving the hold, which has this token still, or after
	// a loss
	grantedNotice = "granted"
	// somebody waits for the lock that the hold with this token keeps; said once of each hold
	wantedNotice = "wanted"
)

// notify is LOCK.NOTIFY. Of holds that somebody waits for already it tells behind its answer.
func (c *Carrier) notify(_ context.Context, dst []byte, args [][]byte) []byte {
	if len(args) != 2 {
		return appendError(dst, msgArity(notifyName))
	}
	switch strings.ToUpper(string(args[1][:min(len(args[1]), 16)])) {
	case "OFF":
		c.Mute()
	case "ON":
		if !c.host.Pushes() {
			return appendError(dst, msgNoPushes)
		}
		c.mu.Lock()
		if !c.notifies.Swap(true) {
			c.service.notifying.Add(1)
		}
		c.answering, c.unanswered = true, c.holdsLocked()
		for _, h := range c.unanswered {
			h.unanswered, h.wanted = true, false
		}
		c.mu.Unlock()
	default:
		return appendError(dst, msgSyntax)
	}
	return append(dst, "+OK\r\n"...)
}

// Mute ends what LOCK.NOTIFY ON has begun. The host calls it when the client's protocol has no
// pushes any more.
func (c *Carrier) Mute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.muteLocked()
}

func (c *Carrier) muteLocked() {
	if c.notifies.Swap(false) {
		c.service.notifying.Add(-1)
	}
	c.pendingPushes = nil
}

// beginAnswer says that from now on holds are made of which the client has not heard yet.
func (c *Carrier) beginAnswer() {
	if !c.notifies.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answering = true
}

// Answered says that the client has been given the reply of the last Do: what there is to be told
// of the holds that it made comes behind it. A Host that pushes must call it after each Do.
func (c *Carrier) Answered() {
	if !c.notifies.Load() {
		return
	}
	c.mu.Lock()
	pushes, unanswered := c.pendingPushes, c.unanswered
	c.answering, c.pendingPushes, c.unanswered = false, nil, nil
	for _, h := range unanswered {
		h.unanswered = false
	}
	c.mu.Unlock()
	for _, frame := range pushes {
		c.host.Push(frame)
	}
	for _, h := range unanswered {
		h.checkWanted()
	}
}

// holdBackPushesLocked keeps what is to be told of h, which becomes one of the carrier's, until the answer
// under way has been given.
func (c *Carrier) holdBackPushesLocked(h *hold) {
	if c.answering && c.notifies.Load() {
		h.unanswered = true
		c.unanswered = append(c.unanswered, h)
	}
}

// checkWanted tells the owner of h if somebody waits for the lock on this Leash.
func (h *hold) checkWanted() {
	if h.carrier.notifies.Load() && h.carrier.service.queues.length(h.lock()) > 0 {
		h.reportWanted()
	}
}

// reportWanted tells the owner of h that somebody waits for the lock, unless it has been told.
func (h *hold) reportWanted() {
	c := h.carrier
	if !c.notifies.Load() {
		return
	}
	c.mu.Lock()
	// it is looked at again then
	say := !h.wanted && (h.state == held || h.state == decrementing) && h.mode() != permit && !h.unreportedLocked()
	h.wanted = h.wanted || say
	c.mu.Unlock()
	if say {
		h.push(wantedNotice, h.token)
	}
}

// push pushes a notice about h, behind the answer that tells of h. It is not called with the
// carrier's mu.
func (h *hold) push(what string, token int64) {
	c := h.carrier
	if !c.notifies.Load() {
		return
	}
	frame := appendBulk(appendBulk(appendArray(nil, 4), "lock"), what)
	frame = appendBulk(frame, h.key())
	if h.mode() == permit {
		frame = appendBulk(frame, h.owner())
	} else {
		frame = appendInt(frame, token)
	}
	c.mu.Lock()
	later := h.unanswered
	if later {
		c.pendingPushes = append(c.pendingPushes, frame)
	}
	c.mu.Unlock()
	if !later {
		c.host.Push(frame)
	}
}

// reportWanted tells those who hold a lock through this Leash that somebody waits for it.
func (s *Service) reportWanted(lock lockID) {
	if s.notifying.Load() == 0 {
		return
	}
	var holds []*hold
	s.mu.Lock()
	for h := range s.holds.of(lock.key) {
		if h.lock() == lock {
			holds = append(holds, h)
		}
	}
	s.mu.Unlock()
	for _, h := range holds {
		h.reportWanted()
	}
}
